// Extents: where on the tier the runs' pages lie, whether there is room for more, and for how long an extent
// is kept that a forked child may still read.
//
// Belongs to who holds the gate. The tier outlives it.
#pragma once

#include <cstdint>

#include "liballoc/paging/accounts.h"
#include "liballoc/paging/memory/memory_budget.h"
#include "liballoc/paging/runs/run_table.h"
#include "liballoc/paging/standing.h"
#include "liballoc/paging/transfers/fork_ledger.h"
#include "liballoc/paging/transfers/run_frame.h"
#include "tiers/tier.h"

namespace terrace::liballoc {

class Extents {
 public:
  constexpr Extents(RunTable& runs, MemoryBudget& budget, const Standing& standing, const Accounts& accounts)
      : runs_(runs), budget_(budget), standing_(standing), accounts_(accounts) {}
  int initialise() { return forks_.initialise(); }
  void use(tiers::Tier* tier) { tier_ = tier; }
  tiers::Tier& tier() { return *tier_; }
  ForkLedger& forks() { return forks_; }
  const ForkLedger& forks() const { return forks_; }

  // This process's share of the pool, when several of one job use it.
  void set_limit(std::uint64_t bytes);
  // For messages: on which of several drives the run's extent lies, or "".
  const char* place_of(const Run& r) const { return r.has_slot ? tier_->place_of(r.slot_offset) : ""; }
  // Once a round: once a second, disk space that was not needed of late goes back.
  void look(std::uint64_t now_ns);
  // What is not in use goes back from now on, though it was of late.
  void trim() { is_to_trim_ = true; }
  // What extents really take of the tier, with their rounding and those that are not trusted any more.
  std::uint64_t used_bytes() const { return tier_ != nullptr ? tier_->limited_space().used_bytes : 0; }
  // Of that and of NVM: what a forked child reads from where we stored it.
  std::uint64_t shared_bytes() const { return used_bytes() + bytes_on(tiers::Medium::nvm); }
  std::uint64_t bytes_on(tiers::Medium medium) const {
    return tier_ != nullptr ? tier_->bytes_on(medium) : 0;
  }
  bool is_kept_in_dram(const Run& r) const {
    return r.has_slot && r.slot_bytes < run_bytes && medium_of(r.slot_offset) == tiers::Medium::dram;
  }
  // For a frame that is worth it.
  bool has_room_in_dram() const {
    return tier_ != nullptr && tier_->memory_room() >= RunFrame::most_kept_bytes;
  }
  tiers::Demoted demoted() const { return tier_ != nullptr ? tier_->demoted() : tiers::Demoted{}; }
  tiers::Medium medium_of(std::uint64_t offset) const { return tier_->medium_of(offset); }
  // A transfer failed there, and what is written next goes elsewhere.
  bool is_passed_over(std::uint64_t offset) const { return tier_->is_passed_over(offset); }
  // Memory of this process that holds what was stored, in runs.
  std::uint32_t memory_runs() const {
    return static_cast<std::uint32_t>((bytes_on(tiers::Medium::dram) + run_bytes - 1) / run_bytes);
  }

  // Finds room for `bytes`, if need be that of copies of what is in DRAM as well. 0 or the tier's error;
  // ENOSPC: there is none, which *by_share says is this process's share of the pool.
  int reserve(std::uint32_t bytes, tiers::Extent* extent, bool* by_share);
  // Whether what changes in the run may be written into the extent that it has: not where a child reads it,
  // nor where a transfer failed of late.
  bool has_own(const Run& r) const {
    return r.has_slot && r.slot_bytes == run_bytes && !forks_.is_read_by_child(r.slot_epoch) &&
           !is_passed_over(r.slot_offset);
  }
  // The run's extent, if it has one. Kept from reuse while a forked child may read it.
  void release(Run& r);
  void release(const tiers::Extent& extent, std::uint32_t epoch);
  // All of the run is in DRAM: a copy in DRAM beside it is of no use. One on a drive is, as the run may leave
  // without a write.
  void release_copy_in_dram(std::uint32_t n);
  // A fork is near, or a child has come, or none has: what it will read, or reads, stays where it is.
  void note_children(bool are_near);
  // A child has gone: gives back what only it could still read.
  void release_unread();
  // Says what run n is that has no frame and no transfer but of pieces, by where its pages are: inside a
  // Change of it. One that has no page anywhere needs no extent.
  void settle(std::uint32_t n);

  // ---- the tier's health ------------------------------------------------------------------------------
  bool is_failing() const { return is_failing_; }
  bool is_full() const { return is_full_; }
  // Neither full nor failing, or so long ago that it may be asked again.
  bool may_be_asked() const;
  void ask_again() { is_failing_ = is_full_ = false; }
  // There was no room: said once.
  void note_full(int error, bool by_share);
  void note_write_error(int error, std::uint64_t offset);
  // NVM failed, and is passed over: said once. The pool is as well as before.
  void note_nvm_error(int error);
  void note_write_done();
  // What the daemon lets be written to the drive, which the tier refuses to exceed (EDQUOT). `is_obeyed`:
  // else the job writes on, and is told so.
  enum class WriteLease : std::uint8_t { unlimited, more_follows, last_of_today };
  void note_leased(WriteLease lease, bool is_obeyed);
  bool are_writes_leased() const { return lease_ != WriteLease::unlimited; }
  // The tier has refused. Said once, and not while more follows.
  void note_lease_spent();
  // The tier takes data again, or has room again: what went over the budget can leave.
  void return_to_budget();

 private:
  void give_back(const tiers::Extent& extent);
  bool give_up_copies();
  void tell_lease_spent(const char* what_now);

  RunTable& runs_;
  MemoryBudget& budget_;
  const Standing& standing_;
  const Accounts& accounts_;
  tiers::Tier* tier_ = nullptr;
  ForkLedger forks_;
  std::uint64_t limit_bytes_ = ~0ULL;
  std::uint64_t retry_after_ns_ = 0;
  std::uint64_t next_look_ns_ = 0;
  bool is_to_trim_ = false;
  bool is_full_ = false;
  bool is_failing_ = false;
  bool is_full_told_ = false;
  bool is_back_told_ = false;
  bool is_nvm_error_told_ = false;
  WriteLease lease_ = WriteLease::unlimited;
  bool is_full_by_lease_ = false;
  bool is_lease_told_ = false;
};

}  // namespace terrace::liballoc
