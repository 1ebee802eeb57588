// The policy: which run leaves DRAM next, and which comes back before it is asked for. It is told what
// happens and is asked for decisions; it moves nothing itself. ReactivePolicy (reactive_policy.h) learns from
// what it is told; PlannedPolicy (planned/planned_policy.h) knows a schedule in advance.
//
// All calls are made by who holds the gate. None may allocate, wait, or touch memory of the heap.
#pragma once

#include <cstdint>

#include "liballoc/paging/runs/run.h"

namespace terrace::liballoc {

class Policy {
 public:
  // ---- what happens -------------------------------------------------------------------------------------
  // Blocks came or went.
  virtual void on_blocks_changed() = 0;
  // A thread of the program touches what is not there; what happens next is for that touch.
  virtual void on_fault(std::uint32_t thread) = 0;
  // That touch is of run n, whose page is in a frame or on the tier, and nobody waited for the run before.
  virtual void on_missing(std::uint32_t n) = 0;
  // Run n was touched, and had been away or read ahead: with `from_tier`, it has to be read now.
  virtual void on_use(std::uint32_t n, bool from_tier) = 0;
  // Run n was touched before its memory was given to another, and comes back as a whole.
  virtual void on_recall(std::uint32_t n) = 0;
  // Run n comes back as a whole, after it was read. True: it should leave again before what is idle.
  virtual bool on_return(std::uint32_t n) = 0;
  // Whether most of run n, which comes back page by page, is there again soon enough to say that it is all
  // used.
  virtual bool is_dense(std::uint32_t n) const = 0;
  // Whether run n, which has just come back, should leave after all others.
  virtual bool leaves_last(std::uint32_t n) const = 0;
  // Run n left its address.
  virtual void on_leave(std::uint32_t n) = 0;
  // The program has said what it will do next: what was expected before is void.
  virtual void on_advice() = 0;
  // A forked child goes on from here.
  virtual void on_fork() = 0;

  // ---- what to do ---------------------------------------------------------------------------------------
  virtual bool wants_eviction() const = 0;
  struct Victim {
    std::uint32_t run = none;
    bool was_spared = false;  // others were let through, there are more behind them: ask again
  };
  // Whenever eviction is wanted.
  virtual Victim next_victim() = 0;
  // Of the runs that are held in their frames for what is touched again, one whose time is over; `none`: none
  // yet, or with `at_once` none at all.
  virtual std::uint32_t next_release(bool at_once) = 0;
  virtual bool wants_read_ahead() const = 0;
  // Whenever reading ahead is wanted; a run that is on the tier only, or `none`.
  virtual std::uint32_t next_read() = 0;
  // A run that is kept compressed in DRAM and that the next touch is expected of, or `none`. Each is given
  // once.
  virtual std::uint32_t next_kept() = 0;
  // A run in a frame, on its way out or read ahead, that belongs under its address though nobody touched it;
  // or `none`. Each is given once.
  virtual std::uint32_t next_return() = 0;
  // Whether what is read ahead may take memory that was written and is still cached.
  virtual bool reads_over_cached() const = 0;
  // There is work that no fault will bring to the agent's notice.
  virtual bool wants_agent() const = 0;

 protected:
  constexpr Policy() = default;
  ~Policy() = default;
};

}  // namespace terrace::liballoc
