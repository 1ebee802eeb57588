// Workers: a few threads that compute for the agent, where there are processors to spare.
//
// One agent serves faults, decides and moves. What it would compute meanwhile, sums above all, is some 10
// GB/s of one core, which several drives outrun. So it gives whole runs' jobs (job.h) to these, and goes on.
// They own nothing: a job names memory that is its operation's own, and what it means for a run the agent
// decides when it takes the job back. They never take the gate or a lock, never allocate, and touch no memory
// of the program's, so that nobody waits for memory that waits for them.
//
//   agent    give() ──► queue ──► worker: work, is_done, kick ──► agent: looks at is_done, took_back()
//
// A kick may come to nothing, when a thread that waits for the gate cuts the agent's round short;
// has_results() keeps the agent from falling asleep then.
//
// The queue has room for all jobs that there can be. Without workers, nothing of this costs anything.
#pragma once

#include <atomic>
#include <cstdint>

#include "liballoc/base/options.h"
#include "liballoc/paging/transfers/job.h"

namespace terrace::liballoc {

class Waker;

class Workers {
 public:
  static constexpr unsigned most = Options::most_workers;
  static constexpr unsigned most_jobs = 64;  // a power of two
  using Work = void(Job&, CodecScratch*);

  // `waker` wakes the agent when a job is done; nullptr: nobody sleeps.
  constexpr explicit Workers(Waker* waker) : waker_(waker) {}

  // Starts so many, or as many as the system lets. Any thread, once, without lock and gate. `work` stands in
  // for Job::work() in tests.
  void start(unsigned count, Work* work = &work_as_told);
  // Ends them; no job is given. For tests: the agent's live as long as the process.
  void stop();
  // In a forked child there are none, and their jobs are nobody's.
  void reset_in_child();

  // ---- who holds the gate
  bool are_there() const { return count_.load(std::memory_order_acquire) > 0; }
  // From here until it is done the job is a worker's.
  void give(Job& job);
  void took_back() {
    --given_;
    done_.fetch_sub(1);
  }
  // Jobs that were not taken back.
  unsigned given() const { return given_; }
  // Processor time that they have computed for. Any thread.
  std::uint64_t user_ns() const { return user_ns_.load(std::memory_order_relaxed); }
  // Some of them are done, or will be at once. Any thread.
  bool has_results() const { return done_.load() > 0; }

 private:
  struct Seat;
  static void work_as_told(Job& job, CodecScratch* scratch) { job.work(scratch); }
  static void* thread_main(void* seat);
  void serve(CodecScratch* scratch);
  Job* next();
  bool take_first(Job** job);
  const std::uint32_t* tail_word() const { return reinterpret_cast<const std::uint32_t*>(&tail_); }

  Waker* waker_;
  Work* work_ = nullptr;
  Seat* seats_ = nullptr;
  unsigned given_ = 0;  // the gate's
  std::atomic<unsigned> count_{0};
  std::atomic<unsigned> running_{0};
  std::atomic<unsigned> done_{0};
  std::atomic<bool> is_ending_{false};
  std::atomic<std::uint32_t> sleeping_{0};
  std::atomic<std::uint64_t> user_ns_{0};
  // Jobs from head to tail wait. One gives at a time, all take.
  std::atomic<std::uint32_t> head_{0};
  std::atomic<std::uint32_t> tail_{0};
  std::atomic<Job*> queue_[most_jobs] = {};
};

}  // namespace terrace::liballoc
