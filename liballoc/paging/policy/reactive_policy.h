// The reactive policy: what leaves DRAM, what comes back, and when, learned from what happens.
//
//   spare       memory that a fault can have at once: free frames, recycled runs, written cached runs, what
//               was read ahead, and what the budget still allows
//   reserve     spare that is kept in hand so that a new tensor does not wait for the device
//
// Growing (forward pass). Eviction begins when spare falls below the reserve; a job that has outgrown its
// budget once begins as soon as it grows again, because the device needs the whole forward pass to take in
// what will not fit: it goes on until as much is written as the expected peak exceeds the budget. Ahead of
// need only what is old leaves: a run since whose arrival half a budget of others arrived. Without that a
// fast device, or a codec, catches up with the program and takes out what its next operation touches
// (docs/decisions/010). Shrinking (backward pass). What was evicted last is needed first: it is brought back
// in that order into memory that is free.
//
// Reading ahead does not take memory from what is in use. Else every run that is read sets off the eviction
// of another, until an operation has less memory than it works on, and each of its touches costs a write and
// a read (docs/decisions/012). Only runs that a whole budget of others arrived after (optimizer state, say)
// leave for what is read ahead; otherwise it gives way, last expected first, down to what covers one stream
// of reads.
#pragma once

#include <cstdint>

#include "liballoc/paging/policy/hot_looks.h"
#include "liballoc/paging/policy/insertion.h"
#include "liballoc/paging/policy/lookahead.h"
#include "liballoc/paging/policy/phase.h"
#include "liballoc/paging/policy/policy.h"
#include "liballoc/paging/policy/policy_parts.h"
#include "liballoc/paging/policy/read_ahead.h"
#include "liballoc/paging/policy/recent_share.h"
#include "liballoc/paging/policy/stream_window.h"
#include "liballoc/paging/policy/tight_window.h"

namespace terrace::liballoc {

class ReactivePolicy final : public Policy {
 public:
  constexpr explicit ReactivePolicy(const PolicyParts& parts) : parts_(parts) {}
  ~ReactivePolicy() = default;
  // 0 or ENOMEM.
  int initialise() { return ahead_.initialise(parts_.runs.size()); }

  void on_blocks_changed() override;
  void on_fault(std::uint32_t thread) override { thread_ = thread; }
  void on_missing(std::uint32_t n) override;
  void on_use(std::uint32_t n, bool from_tier) override;
  void on_recall(std::uint32_t n) override;
  bool on_return(std::uint32_t n) override;
  bool is_dense(std::uint32_t n) const override;
  bool leaves_last(std::uint32_t n) const override;
  void on_leave(std::uint32_t n) override;
  void on_advice() override;
  void on_fork() override;

  bool wants_eviction() const override;
  Victim next_victim() override;
  std::uint32_t next_release(bool at_once) override;
  bool wants_read_ahead() const override;
  std::uint32_t next_read() override;
  std::uint32_t next_kept() override;
  std::uint32_t next_return() override { return none; }
  bool reads_over_cached() const override;
  bool wants_agent() const override;

 private:
  void note_back(std::uint32_t n);
  void follow(std::uint32_t n, bool from_tier);
  std::uint32_t reserve_runs() const;
  std::uint64_t pages_to_hold() const;
  bool is_tight() const;
  std::uint32_t spare_runs() const;
  std::uint32_t away_runs() const;
  std::uint32_t unused_runs() const;
  std::uint32_t stream_window() const;
  bool is_streaming() const;
  bool leaves_clean() const;
  std::uint32_t most_loaded() const;
  bool has_old_idle() const;
  void settle_look();
  std::uint32_t first_with_extent() const;
  const RunList* next_victims() const;
  std::uint32_t first_that_shrinks(const RunList& list) const;
  void let_late_ones_go_by();
  bool comes_as_a_whole(std::uint32_t n) const;
  bool may_be_read(std::uint32_t n) const;
  std::uint32_t next_follower();
  std::uint32_t next_of_block();
  bool find_last_evicted_block();

  PolicyParts parts_;
  Phase phase_;
  Insertion insertion_;
  ReadAhead ahead_;
  Lookahead lookahead_;
  StreamWindow window_;
  TightWindow tight_window_;
  HotLooks looks_;
  RecentShare writes_;                // of what leaves, what is written
  RecentShare streams_;               // of what returns, what goes by
  std::uint32_t thread_ = 0;          // whose touch is served
  std::uint32_t expected_ = none;     // of what was read ahead, the first
  std::uint32_t expected_since_ = 0;  // in arrivals
  std::uint32_t cursor_run_ = none;   // reading ahead goes on here
  std::uint32_t used_last_ = none;    // that next_kept() has not looked behind
  std::uint32_t cursor_block_ = 0;
};

}  // namespace terrace::liballoc
