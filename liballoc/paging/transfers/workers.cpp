#include "liballoc/paging/transfers/workers.h"

#include <algorithm>

#include "liballoc/agent/waiting/waker.h"
#include "liballoc/base/message.h"
#include "liballoc/base/os.h"
#include "liballoc/base/thread.h"

namespace terrace::liballoc {

// Address space until something is compressed.
struct Workers::Seat {
  Workers* workers;
  CodecScratch scratch;
};

// ---- life -------------------------------------------------------------------------------------------------

void Workers::start(unsigned count, Work* work) {
  const unsigned wanted = std::min(count, most);
  if (wanted == 0) return;
  work_ = work;
  seats_ = static_cast<Seat*>(os::map_anonymous(wanted * sizeof(Seat), PROT_READ | PROT_WRITE));
  unsigned started = 0;
  for (; seats_ != nullptr && started < wanted; ++started) {
    seats_[started].workers = this;
    running_.fetch_add(1);
    if (start_thread(&Workers::thread_main, &seats_[started])) continue;
    running_.fetch_sub(1);
    break;
  }
  if (started < wanted)
    Message(Severity::info) << "TERRACE_WORKERS: only " << std::uint64_t{started}
                            << " threads can be started (ulimit -u, pids.max?)";
  count_.store(started, std::memory_order_release);
}

void Workers::stop() {
  constexpr std::uint64_t look_ns = 1'000'000;
  is_ending_.store(true);
  for (std::uint32_t left = 0; (left = running_.load()) > 0;) {
    os::futex_wake(tail_word(), 1 << 30);
    os::futex_wait_for(reinterpret_cast<const std::uint32_t*>(&running_), left, look_ns);
  }
  if (seats_ != nullptr) os::unmap(seats_, count_.load() * sizeof(Seat));
  seats_ = nullptr;
  count_.store(0);
  is_ending_.store(false);
}

void Workers::reset_in_child() {
  seats_ = nullptr;
  given_ = 0;
  count_.store(0);
  running_.store(0);
  done_.store(0);
  sleeping_.store(0);
  user_ns_.store(0);
  head_.store(0);
  tail_.store(0);
}

void* Workers::thread_main(void* seat) {
  auto* const own = static_cast<Seat*>(seat);
  Workers* const workers = own->workers;
  name_thread("terrace-work");
  workers->serve(&own->scratch);
  workers->running_.fetch_sub(1);
  return nullptr;
}

// ---- jobs -------------------------------------------------------------------------------------------------

void Workers::give(Job& job) {
  const std::uint32_t tail = tail_.load(std::memory_order_relaxed);
  job.is_done.store(false, std::memory_order_relaxed);
  queue_[tail % most_jobs].store(&job, std::memory_order_relaxed);
  ++given_;
  tail_.store(tail + 1);
  if (sleeping_.load() > 0) os::futex_wake(tail_word(), 1);
}

void Workers::serve(CodecScratch* scratch) {
  std::uint64_t counted_ns = 0;
  while (Job* const job = next()) {
    work_(*job, scratch);
    const std::uint64_t ns = os::user_ns(RUSAGE_THREAD);
    user_ns_.fetch_add(ns - std::min(ns, counted_ns), std::memory_order_relaxed);
    counted_ns = ns;
    done_.fetch_add(1);  // first: who sees the job done takes it off
    job->is_done.store(true, std::memory_order_release);
    if (waker_ != nullptr) waker_->kick();
  }
}

// Sleeps until there is one; nullptr: none will come.
Job* Workers::next() {
  for (;;) {
    const std::uint32_t tail = tail_.load();
    if (Job* job = nullptr; take_first(&job)) return job;
    if (is_ending_.load()) return nullptr;
    sleeping_.fetch_add(1);
    os::futex_wait(tail_word(), tail);
    sleeping_.fetch_sub(1);
  }
}

// The head is read before the tail, which it never overtakes: what lies between them is there. A place in the
// queue is used again only after the head has passed it.
bool Workers::take_first(Job** job) {
  for (std::uint32_t head = head_.load(); head != tail_.load();) {
    *job = queue_[head % most_jobs].load(std::memory_order_relaxed);
    if (head_.compare_exchange_strong(head, head + 1)) return true;
  }
  return false;
}

}  // namespace terrace::liballoc
