// Gives an engine's slab memory as it is wanted, and takes it back.
//
// Pinned memory grows beside the engine: to page-lock a chunk takes as long as to copy it several times, so a
// thread does it without the engine's lock, and whoever needs the chunk is queued meanwhile. Pageable memory
// (CPU tensors) grows at once: that is only a change of a mapping.
//
//   wake() ──► thread: wanted()? ──► page-lock without the lock ──► changed()
//                      surplus?  ──► unlock without the lock    ──► changed()
//
// Threads: start() and stop() by whoever opens and closes the engine; all else under the engine's lock.
// Errors are errno values.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "liballoc/gpu/offload/memory/slab.h"

namespace terrace::liballoc::offload {

class SlabKeeper {
 public:
  // The engine, by the thread and under the lock, but for begin().
  struct Callbacks {
    std::function<void()> begin;            // the first that the thread does
    std::function<std::uint64_t()> wanted;  // what somebody waits for that may_grow_aside(); 0: nothing
    std::function<void()> changed;          // memory has come or gone, or is not to be had
  };

  // Both outlive it. `mutex` is the engine's lock.
  SlabKeeper(Slab* slab, std::mutex* mutex) : slab_(slab), mutex_(mutex) {}
  SlabKeeper(const SlabKeeper&) = delete;
  SlabKeeper& operator=(const SlabKeeper&) = delete;
  ~SlabKeeper() { stop(); }

  // For pinned memory: from now on a thread does it. Throws std::system_error where there is none to be had.
  void start(Callbacks callbacks);
  void stop();
  bool works_aside() const { return thread_.joinable(); }
  // wanted() may have become something.
  void wake() { work_.notify_one(); }

  // Whether so much may come, by the thread; else it comes at once, or never.
  bool may_grow_aside(std::uint64_t bytes) const {
    return works_aside() && error_ == 0 && slab_->may_grow_for(bytes);
  }
  // True: there is room for so much now.
  bool grow_now(std::uint64_t bytes);
  // Why memory did not grow in this step; 0.
  int error() const { return error_; }

  // What was refused in the step may be tried again, and what no step reaches any more goes back.
  void end_step();
  // All that is free at the end does (`terrace trim`).
  void trim();
  void give_back_surplus();

 private:
  using Lock = std::unique_lock<std::mutex>;
  void run();
  bool grow_aside(Lock& lock);
  bool shrink_aside(Lock& lock);

  Slab* slab_;
  std::mutex* mutex_;
  Callbacks callbacks_;
  std::thread thread_;  // none: host memory is not pinned
  std::condition_variable work_;
  bool ending_ = false;
  int error_ = 0;
};

}  // namespace terrace::liballoc::offload
