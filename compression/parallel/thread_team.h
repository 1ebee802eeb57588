// A team of threads that does one job at a time, each of them a share of it.
//
// The caller is one of the team. The others are started at construction and wait between jobs, so that a job
// costs a wake-up and no thread's start.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace terrace::compression {

class ThreadTeam {
 public:
  using Starter = std::function<std::thread(std::function<void()>)>;

  // `threads`, the caller among them, at least 1. `start` makes a thread that runs what it is given. Throws
  // what `start` throws, where there is no thread to be had; those that did start have ended then.
  explicit ThreadTeam(unsigned threads, const Starter& start = start_plainly);
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;
  ~ThreadTeam() { dismiss(); }

  unsigned threads() const { return static_cast<unsigned>(others_.size()) + 1; }

  // work(i) once on each thread, i below threads(), 0 on the caller's; returns when all are done. `work` does
  // not throw. One caller at a time.
  void run(const std::function<void(unsigned)>& work);

 private:
  static std::thread start_plainly(std::function<void()> function);
  void serve(unsigned number);
  void dismiss();

  std::mutex mutex_;
  std::condition_variable begun_, done_;
  const std::function<void(unsigned)>* work_ = nullptr;  // under mutex_, as the next three
  std::uint64_t jobs_ = 0;                               // how many have begun
  std::size_t working_ = 0;                              // threads that have not finished the last one
  bool ending_ = false;
  std::vector<std::thread> others_;
};

}  // namespace terrace::compression
