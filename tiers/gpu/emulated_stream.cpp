// See emulated_stream.h.
#include "tiers/gpu/emulated_stream.h"

#include <pthread.h>
#include <sys/prctl.h>

#include <cerrno>
#include <utility>

#include "tiers/gpu/start_without_signals.h"

namespace terrace::tiers::gpu {

void EmulatedMark::pass(int error) noexcept {
  const std::lock_guard lock(mutex_);
  has_passed_ = true;
  error_ = error;
  passed_.notify_all();
}

int EmulatedMark::query() noexcept {
  const std::lock_guard lock(mutex_);
  return has_passed_ ? error_ : EBUSY;
}

int EmulatedMark::wait() noexcept {
  std::unique_lock lock(mutex_);
  passed_.wait(lock, [this] { return has_passed_; });
  return error_;
}

StreamObject::StreamObject() {
  thread_ = start_without_signals([this] { run(); });
}

StreamObject::~StreamObject() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void StreamObject::push(Task task, bool is_brief) { push_item({std::move(task), nullptr}, is_brief); }

void StreamObject::push_record(EventObject& event) {
  auto mark = std::make_shared<EmulatedMark>();
  // The event is held so that two threads recording it leave it at the later of their marks.
  const std::lock_guard lock(event.mutex);
  push_item({nullptr, mark}, true);
  event.mark = std::move(mark);
}

void StreamObject::push_wait(EmulatedMarkPointer mark) {
  const bool has_passed = mark->query() != EBUSY;
  push_item({[mark = std::move(mark)] { return mark->wait(); }, nullptr}, has_passed);
}

void StreamObject::push_item(Item item, bool is_brief) {
  std::unique_lock lock(mutex_);
  if (is_brief && !working_ && queue_.empty()) {
    run_item(item, lock);
    if (queue_.empty()) return;  // or somebody has queued more meanwhile
  } else {
    queue_.push_back(std::move(item));
  }
  lock.unlock();
  wake_.notify_one();
}

void StreamObject::run() {
  // Links are paced by sleeping; the default slack of 50 us would be most of a chunk.
  ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  ::pthread_setname_np(::pthread_self(), "terrace-gpu");
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return !working_ && (closing_ || !queue_.empty()); });
    if (queue_.empty()) return;
    Item item = std::move(queue_.front());
    queue_.pop_front();
    run_item(item, lock);
  }
}

// Without the lock, also while what the item holds goes.
void StreamObject::run_item(Item& item, std::unique_lock<std::mutex>& lock) {
  working_ = true;
  lock.unlock();
  if (item.mark != nullptr) {
    item.mark->pass(error_);
  } else if (error_ == 0) {
    error_ = item.task();
  }
  item = {};
  lock.lock();
  working_ = false;
}

}  // namespace terrace::tiers::gpu
