// A thread that keeps the processor of another from halting while that one waits (halt_polling.h says when).
//
// It turns in a loop there with the least priority that there is (SCHED_IDLE): whoever is woken there has the
// processor at once, and the kernel, which looks for a processor for a thread that is woken, takes one with
// nothing else to do for an idle one. It touches no memory of the program's, takes no lock and never
// allocates. Where it may not have that priority, or not run where the other does, it sleeps.
#pragma once

#include <atomic>
#include <cstdint>

namespace terrace::liballoc {

class HaltPoller {
 public:
  // Where there is more than one processor. Any thread, once, without lock and gate.
  void start(unsigned processors);
  // Ends it. For tests: the agent's lives as long as the process.
  void stop();
  // In a forked child there is none.
  void reset_in_child();

  // Polls where `thread` of this process runs until then, or until a later call says otherwise. The agent,
  // with the gate, as a fork in between would leave a descriptor open in the child.
  void poll_beside(std::uint32_t thread, std::uint64_t until_ns);

  // Until it is asked again.
  void pause() { until_ns_.store(0, std::memory_order_relaxed); }

  bool is_there() const { return state_.load(std::memory_order_acquire) == running; }
  // Of its own: no progress of the program's. Any thread.
  std::uint64_t user_ns() const { return user_ns_.load(std::memory_order_relaxed); }
  // The processor that it polls on; -1: none. Any thread.
  int seat() const { return seat_.load(std::memory_order_relaxed); }

 private:
  enum State : std::uint32_t { absent, running, ending };

  static void* thread_main(void* self);
  void follow(const char* stat_path);
  void serve();
  void rest();
  bool poll();
  bool take_seat();
  int processor_of_thread() const;

  const std::uint32_t* state_word() const { return reinterpret_cast<const std::uint32_t*>(&state_); }
  const std::uint32_t* asleep_word() const { return reinterpret_cast<const std::uint32_t*>(&asleep_); }

  std::uint32_t thread_ = 0;  // the agent's: whose file `stat_fd_` is
  std::atomic<std::uint32_t> state_{absent};
  std::atomic<std::uint32_t> asleep_{0};
  std::atomic<std::uint64_t> until_ns_{0};
  std::atomic<std::uint64_t> user_ns_{0};
  std::atomic<int> stat_fd_{-1};
  std::atomic<int> seat_{-1};
};

}  // namespace terrace::liballoc
