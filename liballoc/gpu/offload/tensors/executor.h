// The threads that work on tensors: a few for each stage, each in the order in which tensors were queued.
//
//   store   frame (on a device, where it is compressed) ─► out
//   fetch                                                  in ─► verdict (of what kernels took apart)
//
// Stages have threads of their own, since each waits for something else: the device, the drive, the source.
// Any thread may queue; start() and stop() by whoever opens and closes the engine.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "liballoc/gpu/offload/tensors/tensor.h"
#include "tiers/gpu/start_without_signals.h"

namespace terrace::liballoc::offload {

enum class Stage : std::uint8_t { frame, out, in, verdict, count };

class Executor {
 public:
  using Work = std::function<void(const TensorPtr&)>;

  // `begin` is the first that each thread does. Throws std::system_error where there are no threads.
  void start(Stage stage, unsigned threads, const std::function<void()>& begin, Work work) {
    Crew& crew = crew_of(stage);
    crew.work = std::move(work);
    for (unsigned i = 0; i < threads; ++i)
      crew.threads.push_back(tiers::gpu::start_without_signals([&crew, begin] {
        begin();
        serve(crew);
      }));
  }
  void queue(Stage stage, TensorPtr tensor) {
    Crew& crew = crew_of(stage);
    {
      const std::lock_guard lock(crew.mutex);
      crew.queue.push_back(std::move(tensor));
    }
    crew.wake.notify_one();
  }
  // Works through what is queued, stage by stage, then ends. Nothing else is queued any more.
  void stop() {
    for (Crew& crew : crews_) {
      {
        const std::lock_guard lock(crew.mutex);
        crew.is_ending = true;
      }
      crew.wake.notify_all();
      for (std::thread& thread : crew.threads) thread.join();
      crew.threads.clear();
    }
  }

 private:
  struct Crew {
    Work work;
    std::mutex mutex;
    std::condition_variable wake;
    std::deque<TensorPtr> queue;
    bool is_ending = false;
    std::vector<std::thread> threads;
  };

  Crew& crew_of(Stage stage) { return crews_[static_cast<std::size_t>(stage)]; }
  static void serve(Crew& crew) {
    for (std::unique_lock lock(crew.mutex);;) {
      crew.wake.wait(lock, [&crew] { return crew.is_ending || !crew.queue.empty(); });
      if (crew.queue.empty()) return;
      const TensorPtr tensor = std::move(crew.queue.front());
      crew.queue.pop_front();
      lock.unlock();
      crew.work(tensor);
      lock.lock();
    }
  }

  std::array<Crew, static_cast<std::size_t>(Stage::count)> crews_;
};

}  // namespace terrace::liballoc::offload
