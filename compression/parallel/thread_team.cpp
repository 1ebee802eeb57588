#include "compression/parallel/thread_team.h"

#include <utility>

namespace terrace::compression {

std::thread ThreadTeam::start_plainly(std::function<void()> function) {
  return std::thread(std::move(function));
}

ThreadTeam::ThreadTeam(unsigned threads, const Starter& start) {
  others_.reserve(threads - 1);
  try {
    for (unsigned i = 1; i < threads; ++i) others_.push_back(start([this, i] { serve(i); }));
  } catch (...) {
    dismiss();  // a thread that nobody joined ends the program
    throw;
  }
}

void ThreadTeam::dismiss() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  begun_.notify_all();
  for (std::thread& thread : others_) thread.join();
  others_.clear();
}

void ThreadTeam::serve(unsigned number) {
  std::unique_lock lock(mutex_);
  for (std::uint64_t seen = 0;; ++seen) {
    begun_.wait(lock, [&] { return ending_ || jobs_ > seen; });
    if (ending_) return;
    const auto* const work = work_;
    lock.unlock();
    (*work)(number);
    lock.lock();
    if (--working_ == 0) done_.notify_one();
  }
}

void ThreadTeam::run(const std::function<void(unsigned)>& work) {
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    working_ = others_.size();
    ++jobs_;
  }
  begun_.notify_all();
  work(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return working_ == 0; });
}

}  // namespace terrace::compression
