#include "liballoc/paging/transfers/extents.h"

#include "liballoc/base/message.h"
#include "liballoc/base/os.h"
#include "tiers/extent_allocator.h"

namespace terrace::liballoc {
namespace {

constexpr std::uint64_t retry_pause_ns = 1'000'000'000;
constexpr std::uint64_t look_pause_ns = 1'000'000'000;

}  // namespace

void Extents::set_limit(std::uint64_t bytes) {
  limit_bytes_ = bytes;
  tier_->set_limit(bytes);
}

void Extents::look(std::uint64_t now_ns) {
  if (now_ns < next_look_ns_) return;
  const bool is_more = tier_->give_space_back(is_to_trim_);
  is_to_trim_ &= is_more;
  next_look_ns_ = now_ns + (is_more ? look_pause_ns / 20 : look_pause_ns);
}

int Extents::reserve(std::uint32_t bytes, tiers::Extent* extent, bool* by_share) {
  int error = ENOSPC;
  for (int attempt = 0; attempt < 2 && error == ENOSPC; ++attempt) {
    error = tier_->reserve(bytes, extent);
    const std::uint64_t more = error == 0 ? 0 : tiers::whole_units(bytes);
    *by_share = used_bytes() + more > limit_bytes_;
    if (error == 0 && *by_share) {
      tier_->release(*extent);
      error = ENOSPC;
    }
    if (error == ENOSPC && !give_up_copies()) break;
  }
  if (error == 0) is_full_ = false;
  return error;
}

// The pool has no room, and some of it holds what is in DRAM as well. True: some was given up.
bool Extents::give_up_copies() {
  constexpr std::uint32_t most = 64;
  constexpr std::uint32_t most_looks = 4096;
  std::uint32_t given = 0;
  for (std::uint32_t n = runs_.lists().idle.back(), looks = 0;
       n != none && looks < most_looks && given < most; n = runs_[n].previous, ++looks) {
    Run& r = runs_[n];
    if (!r.has_slot || r.in_flight || r.pieces > 0 || !runs_.pages(n).away().is_empty()) continue;
    runs_.pages(n).stored = PageSet{};
    release(r);
    ++given;
  }
  return given > 0;
}

void Extents::release(const tiers::Extent& extent, std::uint32_t epoch) {
  if (standing_.mode == PagerMode::paging && forks_.may_release(extent, epoch)) give_back(extent);
}

void Extents::release(Run& r) {
  if (r.has_slot) release({r.slot_offset, r.slot_bytes}, r.slot_epoch);
  r.has_slot = false;
}

void Extents::release_copy_in_dram(std::uint32_t n) {
  Run& r = runs_[n];
  Pages& p = runs_.pages(n);
  if (r.in_flight || r.pieces > 0 || !is_kept_in_dram(r) || !p.away().is_empty()) return;
  p.stored = PageSet{};
  release(r);
}

void Extents::note_children(bool are_near) {
  if (tier_ != nullptr) tier_->set_read_by_children(are_near || forks_.may_be_read());
}

void Extents::release_unread() {
  tiers::Extent extent;
  while (forks_.next_released(&extent)) give_back(extent);
  note_children(false);
}

void Extents::give_back(const tiers::Extent& extent) {
  tier_->release(extent);
  const bool was_full = is_full_;
  is_full_ = false;
  if (was_full) return_to_budget();
}

void Extents::settle(std::uint32_t n) {
  Run& r = runs_[n];
  const Pages& p = runs_.pages(n);
  const bool is_empty = p.are_nowhere() && r.pieces == 0;
  if (is_empty) {
    release(r);
    r.zero_fill = true;
  }
  r.state = is_empty ? RunState::empty : p.in_place.is_empty() ? RunState::stored : RunState::resident;
}

// ---- the tier's health ------------------------------------------------------------------------------------

bool Extents::may_be_asked() const { return (!is_full_ && !is_failing_) || os::now_ns() >= retry_after_ns_; }

void Extents::note_full(int error, bool by_share) {
  is_full_ = true;
  retry_after_ns_ = os::now_ns() + retry_pause_ns;
  accounts_.tell_pool_full(used_bytes());
  if (is_full_told_) return;
  is_full_told_ = true;
  Message m(Severity::warning);
  m << (by_share ? "the pool that this job's processes share is full, this one's part at "
                 : "the pool is full at ");
  m.bytes(used_bytes()) << " (";
  m.error(error) << "): data stays in DRAM, over the budget if need be; enlarge the pool "
                    "(--pool-size, TERRACE_POOL_SIZE) or free disk";
}

void Extents::note_write_error(int error, std::uint64_t offset) {
  retry_after_ns_ = os::now_ns() + retry_pause_ns;
  if (!is_failing_) {
    Message m(Severity::warning);
    const char* place = tier_->place_of(offset);
    m << "writing to the pool" << (place[0] != '\0' ? " in " : "") << place << " failed: ";
    m.error(error) << "; data stays in DRAM, over the budget if need be, next try in 1 s";
  }
  is_failing_ = true;
}

void Extents::note_nvm_error(int error) {
  if (is_nvm_error_told_) return;
  is_nvm_error_told_ = true;
  Message m(Severity::warning);
  m << "writing to NVM failed: ";
  m.error(error) << "; what leaves goes on to the pool, and after each 256 MiB NVM is tried again";
}

// What was refused may be tried again.
void Extents::note_leased(WriteLease lease, bool is_obeyed) {
  lease_ = lease;
  if (is_full_by_lease_ && lease != WriteLease::last_of_today) {
    is_full_ = is_full_by_lease_ = false;
    return_to_budget();
  }
  if (is_obeyed || lease != WriteLease::last_of_today) return;
  tell_lease_spent("under --limit the job writes on, as the kernel would end it otherwise");
}

void Extents::note_lease_spent() {
  is_full_ = is_full_by_lease_ = true;
  retry_after_ns_ = os::now_ns() + retry_pause_ns;
  accounts_.tell_pool_full(used_bytes());
  if (lease_ != WriteLease::last_of_today) return;
  tell_lease_spent(
      "data stays in DRAM, over the budget if need be, until the next day (UTC) or until more is allowed");
}

void Extents::tell_lease_spent(const char* what_now) {
  if (is_lease_told_) return;
  is_lease_told_ = true;
  Message(Severity::warning)
      << "what this job may write to the drive today is spent ([pool] writes_per_day, --writes-per-day): "
      << what_now;
}

void Extents::note_write_done() {
  is_failing_ = false;
  return_to_budget();
}

void Extents::return_to_budget() {
  if (!standing_.evicts() || !budget_.gave_way() || is_failing_ || is_full_) return;
  budget_.return_to_asked();
  if (is_back_told_) return;
  is_back_told_ = true;
  Message m(Severity::warning);
  m << "the pool takes data again: back to the budget of ";
  m.bytes(budget_.bytes());
}

}  // namespace terrace::liballoc
