// The agent in a forked child: the parent's thread does not exist there, and what it had open is the
// parent's.
#include "liballoc/agent/agent.h"

namespace terrace::liballoc {

void Agent::reset_in_child() {
  waker_.reset_in_child();
  workers_.reset_in_child();
  halt_poller_.reset_in_child();
  take_over_.reset_in_child();
  daemon_.reset_in_child();
  mover_access_.mover().close();
  budget_.close();
  kernel_swap_.close();
  pool_.forget_descriptors_in_child();
  wait_set_.forget_children();
  if (!latch_.is_open() && !is_set_up_) return start_anew_in_child();
  latch_.open_in_child();
  availability_.set_inactive("a forked child keeps its own pages resident");
}

// A parent that had set nothing up yet (set_up() keeps the gate but for connecting, and the fork held the
// gate) leaves nothing behind but what the daemon may have granted it, its pool file above all. Such a child
// starts like any process, with its first large allocation.
void Agent::start_anew_in_child() {
  daemon_.client().forget_grant();
  budget_.set_granted(0);
  availability_.set_inactive(Availability::not_asked_for);
  latch_.close_in_child();
}

bool Agent::restart_in_child() {
  restoring_ = true;
  const char* const obstacle = start_serving_in_child();
  if (obstacle[0] == '\0') {
    availability_.set_active();
    return true;
  }
  availability_.set_unavailable(obstacle);
  mover_access_.mover().close();  // with nobody to serve it, a touch of what it watches would wait for ever
  waker_.close();
  return false;
}

// What is in the way, if anything.
const char* Agent::start_serving_in_child() {
  if (!waker_.open()) return "no pipe can be opened there (ulimit -n?)";
  if (mover_access_.open_in_child() != 0) return "no userfaultfd can be opened there";
  if (guarded_.pager.start_restoring(&mover_access_.mover()) != 0)
    return "the pool cannot be opened there, or memory is short";
  pool_.note_descriptors_in_child();
  return create_thread() ? "" : "no thread can be started there (ulimit -u, pids.max?)";
}

}  // namespace terrace::liballoc
