// What happens around fork().
//
//   prepare   stdio's lock of all streams is taken while the agent still serves faults: libc's fork takes it
//             after these handlers, and who holds it (fflush of all streams) may be waiting for an evicted
//             page, for the owner of a stream who is, or to fork itself; signals wait, as a handler may touch
//             what is evicted; one forking thread at a time; the agent comes to rest between two steps (the
//             gate), what is leaving is put back or waited for (at most 50 ms), then the heap's lock is taken
//   parent    the same in reverse
//   child     locks are new; the run table is adapted (paging/forking.h); if anything lies on the tier, the
//             child gets a userfaultfd and an agent of its own before any of its code runs
//
// Handlers run in libc's fork() while it holds locks of its own, and in the child before other libraries'
// handlers have run: nothing here allocates except through the bootstrap arena.
#include "liballoc/process/fork_handlers.h"

#include <pthread.h>

#include "liballoc/base/message.h"
#include "liballoc/base/own_descriptors.h"
#include "liballoc/base/signal_guard.h"
#include "liballoc/heap/heap.h"

// glibc's lock of the list of all streams, recursive; exported since 2.2.5. Null where libc has none.
extern "C" {
[[gnu::weak]] void _IO_list_lock();       // NOLINT(bugprone-reserved-identifier): libc's names
[[gnu::weak]] void _IO_list_unlock();     // NOLINT(bugprone-reserved-identifier)
[[gnu::weak]] void _IO_list_resetlock();  // NOLINT(bugprone-reserved-identifier)
}

namespace terrace::liballoc {
namespace {

constexpr std::uint64_t drain_limit_ns = 50'000'000;

constinit Lock fork_lock;
constinit std::uint64_t signals_before = 0;
constinit bool streams_are_locked = false;
constinit bool child_handler_runs = false;
using ChildHandlerHook = void (*)(bool begins);
constinit ChildHandlerHook child_handler_hook = nullptr;

// After the gate nothing may be waited for that another thread holds while it touches memory. Every fork of a
// process that may page takes it first, or two of them take it and the fork lock in different orders.
bool lock_streams(Heap& h) {
  if (&_IO_list_lock == nullptr || &_IO_list_unlock == nullptr || &_IO_list_resetlock == nullptr ||
      !h.options().may_page())
    return false;
  _IO_list_lock();
  return true;
}

void prepare() {
  Heap& h = heap();
  const bool streams = lock_streams(h);
  const std::uint64_t signals = SignalBlock::begin();
  fork_lock.lock();
  signals_before = signals;
  streams_are_locked = streams;
  // Inside the gate the lock is not waited for (guarded_pager.h).
  for (;; h.guarded().gate.leave()) {
    h.guarded().gate.enter();
    h.pager().follow_blocks();
    h.pager().forking().prepare(drain_limit_ns);
    if (h.blocks().lock().try_lock_for_a_while()) break;
  }
  h.pager().follow_blocks();
  h.pager().forking().seal();
}

// libc does not tell whether fork succeeded; a failed one looks like a child that ended at once, since the
// only holder of the pipe's writing end is closed here.
void parent() {
  Heap& h = heap();
  h.pager().forking().after_in_parent(true);
  h.blocks().lock().unlock();
  h.guarded().gate.leave();
  const std::uint64_t signals = signals_before;
  const bool streams = streams_are_locked;
  fork_lock.unlock();
  if (streams) _IO_list_unlock();
  SignalBlock::end(signals);
}

void child() {
  child_handler_runs = true;
  if (child_handler_hook != nullptr) child_handler_hook(true);
  Heap& h = heap();
  fork_lock.reset_after_fork();
  if (streams_are_locked) _IO_list_resetlock();  // libc does so only if the parent had several threads
  h.blocks().lock().reset_after_fork();
  h.guarded().gate.reset_after_fork();
  h.agent().reset_in_child();
  const bool evicted = h.pager().forking().after_in_child();
  if (!evicted) h.blocks().end_recording();
  if (!evicted) forget_all_descriptors();  // the pool file has nothing of this process: it may close it
  if (evicted && !h.agent().restart_in_child()) {
    h.pager().forking().abandon_stored();
    h.blocks().end_recording();
    forget_all_descriptors();
    Message(Severity::error) << "a forked child cannot be served its evicted pages: "
                             << h.agent().availability().reason() << "; touching one ends it with SIGSEGV";
  }
  if (child_handler_hook != nullptr) child_handler_hook(false);
  child_handler_runs = false;
  SignalBlock::end(signals_before);
}

}  // namespace

void register_fork_handlers() { pthread_atfork(&prepare, &parent, &child); }

void set_child_handler_hook(void (*hook)(bool begins)) { child_handler_hook = hook; }

bool in_fork_child_handler() { return child_handler_runs; }

}  // namespace terrace::liballoc
