// A few threads that work on tensors in the order in which they were queued.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "liballoc/gpu/offload/engine/tensor.h"
#include "tiers/gpu/start_without_signals.h"

namespace terrace::liballoc::offload {

class Crew {
 public:
  using Work = std::function<void(const TensorPtr&)>;

  // `begin` is the first that each thread does. Throws where there are no threads.
  void start(unsigned threads, const std::function<void()>& begin, Work work) {
    work_ = std::move(work);
    for (unsigned i = 0; i < threads; ++i)
      threads_.push_back(tiers::gpu::start_without_signals([this, begin] {
        begin();
        serve();
      }));
  }
  // Works through what is queued, then ends. Nothing is queued any more.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  void queue(TensorPtr tensor) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(tensor));
    }
    wake_.notify_one();
  }

 private:
  void serve() {
    for (std::unique_lock lock(mutex_);;) {
      wake_.wait(lock, [this] { return ending_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const TensorPtr tensor = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      work_(tensor);
      lock.lock();
    }
  }

  Work work_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<TensorPtr> queue_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace terrace::liballoc::offload
