#include "liballoc/agent/agent.h"

#include <algorithm>

#include "liballoc/base/os.h"
#include "liballoc/base/thread.h"

namespace terrace::liballoc {
namespace {

#ifdef TERRACE_CHECK_INVARIANTS
constexpr bool checks_invariants = true;
#else
constexpr bool checks_invariants = false;
#endif

constexpr std::uint64_t poll_ns = 50'000;
constexpr std::uint64_t follow_ns = 1'000'000;  // what the daemon says is never more urgent

}  // namespace

// ---- life -----------------------------------------------------------------------------------------------

void Agent::start_if_wanted() {
  if (latch_.is_open()) return;
  if (!latch_.claim()) return latch_.wait();
  if (!guarded_.options.may_page()) return latch_.let_go();
  if (!waker_.open() || !create_thread()) {
    availability_.give_up("the agent thread cannot be started");
    return latch_.let_go();
  }
  latch_.wait();
  // Here, as a new thread takes locks of the C library, which the agent must not.
  if (!availability_.is_active()) return;
  workers_.start(guarded_.options.workers);
  halt_poller_.start(guarded_.options.processors);
}

bool Agent::create_thread() { return start_thread(&Agent::thread_main, this); }

void* Agent::thread_main(void* self) {
  auto* agent = static_cast<Agent*>(self);
  name_thread("terrace-agent");
  if (!agent->restoring_) {
    agent->set_up();
    agent->latch_.let_go();
  }
  agent->run();
  return nullptr;
}

void Agent::set_up() {
  budget_.set_granted(guarded_.options.dram_bytes);
  daemon_.connect();
  pool_.choose_tiers(daemon_.client().grant());
  const GateKeeper gate(guarded_.gate);
  is_set_up_ = true;
  if (budget_.granted_bytes() == 0 || availability_.is_unavailable()) return;
  if (!mover_access_.open(daemon_.client().grant()) || !pool_.open(daemon_.client())) return;
  budget_.follow_limit_of(guarded_.options.limit_cgroup);
  kernel_swap_.open(guarded_.options.limit_cgroup);
  if (!activate_pager()) return;
  take_over_.prepare();
  availability_.set_active();
}

bool Agent::activate_pager() {
  Client& client = daemon_.client();
  guarded_.pager.keep_compressed(pool_.tiers().compressed());
  const int error = guarded_.pager.activate(&mover_access_.mover(), pool_.tier(), &client,
                                            budget_.granted_bytes(), guarded_.options.compression, &workers_);
  if (error != 0) {
    mover_access_.mover().close();
    availability_.give_up("no address space for the pager");
    return false;
  }
  if (pool_.is_granted()) guarded_.pager.extents().set_limit(client.grant().pool_limit_bytes);
  return true;
}

// ---- the loop -------------------------------------------------------------------------------------------

void Agent::run() {
  for (;;) {
    sleep();
    waker_.check_descriptors(mover().fd());
    const GateKeeper gate(guarded_.gate);
    round();
  }
}

// While something is about to happen, round() asks for touches and transfers itself, at half the cost.
void Agent::sleep() {
  const std::uint64_t now = os::now_ns();
  if (now < next_poll_ns_ && is_busy(now)) return;
  next_poll_ns_ = now + poll_ns;
  const bool was_kicked = waker_.begin_rest();
  wait_set_.wait({.userfault = mover().fd(), .tier = pool_.wait_fd(), .daemon = daemon_.client().wait_fd()},
                 was_kicked || workers_.has_results() || is_busy(os::now_ns()) ? 0 : timeout_ms());
  waker_.end_rest();
}

bool Agent::is_busy(std::uint64_t now_ns) const {
  return guarded_.pager.is_paging() && busy_wait_.goes_on(now_ns, guarded_.pager.awaits_piece());
}

int Agent::timeout_ms() const {
  const int most = budget_.pause_ms();
  if (!take_over_.is_dormant()) return most;
  return static_cast<int>(
      std::clamp<std::uint64_t>(take_over_.pause_ns() / 1'000'000, 1, static_cast<std::uint64_t>(most)));
}

void Agent::round() {
  const std::uint64_t now = os::now_ns();
  wait_set_.reap_children();
  if (daemon_.is_used() && now >= next_follow_ns_) {
    next_follow_ns_ = now + follow_ns;
    daemon_.follow(now);
  }
  budget_.follow_limit(now);
  if (take_over_.is_dormant()) {
    take_over_.look();
    if (take_over_.is_dormant() && publisher_.is_due(now))
      guarded_.pager.estimate_resident(take_over_.held_estimate());
  }
  if (pool_.is_open() && guarded_.pager.is_paging()) {
    page();
    guarded_.pager.look_for_thrashing(now);
    guarded_.pager.extents().look(now);
    kernel_swap_.look(now);
    guarded_.pager.learner().offer(daemon_, now);
  }
  if constexpr (checks_invariants) {
    blocks_.check_invariants();
    guarded_.pager.check_invariants();
  }
  if (publisher_.is_due(now)) publisher_.publish(now);
}

void Agent::page() {
  for (bool progress = true; progress && !guarded_.gate.somebody_waits();) {
    serve_faults();
    take_completions();
    progress = guarded_.pager.balance();
    if (budget_.follows_limit()) budget_.follow_limit(os::now_ns());
  }
}

void Agent::take_completions() {
  const bool awaited_piece = guarded_.pager.awaits_piece();
  guarded_.pager.handle_completions();
  if (awaited_piece && !guarded_.pager.awaits_piece()) busy_wait_.note_served(os::now_ns());
}

void Agent::serve_faults() {
  Fault fault{};
  while (!guarded_.gate.somebody_waits() && guarded_.pager.can_take_fault() &&
         mover_access_.mover().next_fault(&fault)) {
    // A limit that falls while a storm of faults is served is not outrun by it.
    if (budget_.follows_limit()) budget_.follow_limit(os::now_ns());
    guarded_.pager.handle_fault(fault);
    note_fault(fault.thread, os::now_ns());
  }
}

void Agent::note_fault(std::uint32_t thread, std::uint64_t now_ns) {
  busy_wait_.note_fault(now_ns);
  if (!halt_poller_.is_there()) return;
  halt_polling_.note_fault(thread, now_ns);
  if (halt_polling_.polls())
    halt_poller_.poll_beside(thread, now_ns + HaltPolling::longest_ns);
  else
    halt_poller_.pause();
}

}  // namespace terrace::liballoc
