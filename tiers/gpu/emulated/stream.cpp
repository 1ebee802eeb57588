// See stream.h.
#include "tiers/gpu/emulated/stream.h"

#include <pthread.h>
#include <sys/prctl.h>

#include <cerrno>
#include <utility>

#include "tiers/gpu/host_clock.h"
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

void EmulatedMark::work_ahead() {
  if (query() != EBUSY) return;
  if (const auto stream = stream_.lock()) stream->work_ahead_to(*this);
}

StreamObject::StreamObject(std::uint64_t lag_ns) : lag_ns_(lag_ns) {
  thread_ = start_without_signals([this] { run(); });
}

StreamObject::~StreamObject() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void StreamObject::push(Task task, bool is_brief, Ahead ahead) {
  push_item({.task = std::move(task), .ahead = ahead}, is_brief);
}

void StreamObject::push_record(EventObject& event) {
  auto mark = std::make_shared<EmulatedMark>(weak_from_this());
  // The event is held so that two threads recording it leave it at the later of their marks.
  const std::lock_guard lock(event.mutex);
  push_item({.mark = mark}, true);
  event.mark = std::move(mark);
}

void StreamObject::push_wait(EmulatedMarkPointer mark) {
  const bool has_passed = mark->query() != EBUSY;
  push_item({.awaited = std::move(mark)}, has_passed);
}

void StreamObject::push_item(Item item, bool is_brief) {
  Lock lock(mutex_);
  if (is_brief && lag_ns_ == 0 && !working_ && queue_.empty()) {
    if (item.awaited != nullptr) item.error = item.awaited->query();
    run_item(item, lock);
  } else {
    if (lag_ns_ != 0) item.due_ns = now_ns() + lag_ns_;
    queue_.push_back(std::move(item));
  }
  lock.unlock();
  wake_.notify_all();
}

void StreamObject::run() {
  // Links are paced by sleeping; the default slack of 50 us would be most of a chunk.
  ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  ::pthread_setname_np(::pthread_self(), "terrace-gpu");
  Lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return !working_ && (closing_ || !queue_.empty()); });
    if (queue_.empty()) return;
    await_turn(lock);
    run_item(queue_.front(), lock);
    queue_.pop_front();
    wake_.notify_all();
  }
}

// Nobody is working meanwhile, so that bytes can be moved ahead.
void StreamObject::await_turn(Lock& lock) {
  Item& item = queue_.front();  // only this thread takes it away
  const EmulatedMarkPointer awaited = item.awaited;
  const std::uint64_t due_ns = item.due_ns;
  lock.unlock();
  const int error = awaited != nullptr ? awaited->wait() : 0;
  if (due_ns != 0) sleep_until_ns(due_ns);
  lock.lock();
  wake_.wait(lock, [this] { return !working_; });
  if (error != 0) item.error = error;
}

// Without the lock, also while what the item held goes. In the queue others see an empty one meanwhile.
void StreamObject::run_item(Item& item, Lock& lock) {
  working_ = true;
  Item running = std::exchange(item, {});
  lock.unlock();
  if (running.mark != nullptr) {
    running.mark->pass(error_);
  } else if (error_ == 0) {
    error_ = running.error;
    if (error_ == 0 && running.task) error_ = running.task(running.is_ahead ? Part::time : Part::whole);
  }
  running = {};
  lock.lock();
  working_ = false;
}

void StreamObject::work_ahead_to(const EmulatedMark& mark) {
  Lock lock(mutex_);
  while (Item* const item = first_behind_time(mark)) {
    if (working_) {
      wake_.wait(lock, [this] { return !working_; });
    } else if (const EmulatedMarkPointer awaited = item->awaited; awaited != nullptr) {
      lock.unlock();
      awaited->work_ahead();
      lock.lock();
      for (Item& each : queue_) each.is_ahead |= each.awaited == awaited;
    } else {
      move_bytes(*item, lock);
    }
  }
}

// The first before the mark whose bytes are not moved yet; null where there is none, or none that may be.
StreamObject::Item* StreamObject::first_behind_time(const EmulatedMark& mark) {
  Item* found = nullptr;
  for (Item& item : queue_) {
    if (item.mark.get() == &mark) return found != nullptr && found->ahead == Ahead::may ? found : nullptr;
    if (item.is_ahead && item.error != 0) return nullptr;  // it will end the stream's work
    if (found == nullptr && item.mark == nullptr && !item.is_ahead) found = &item;
  }
  return nullptr;  // the mark has passed
}

void StreamObject::move_bytes(Item& item, Lock& lock) {
  working_ = true;
  lock.unlock();
  const int error = error_ == 0 ? item.task(Part::bytes) : 0;
  lock.lock();
  working_ = false;
  item.is_ahead = true;
  item.error = error;
  wake_.notify_all();
}

}  // namespace terrace::tiers::gpu
