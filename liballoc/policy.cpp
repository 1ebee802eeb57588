// The reactive policy: what leaves DRAM, what comes back, and when. Everything here looks at counts and
// queues and asks for transitions; nothing here moves a byte.
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
#include <algorithm>

#include "liballoc/message.h"
#include "liballoc/os.h"
#include "liballoc/pager.h"

namespace terrace::liballoc {
namespace {

constexpr std::uint32_t most_queued = 2;  // staged beyond the writes in flight
constexpr unsigned most_scanned = 64;

}  // namespace

void Phase::update(std::uint32_t live, std::uint32_t slack) {
  if (growing_) {
    extreme_ = std::max(extreme_, live);
    if (live + slack >= extreme_) return;
    peaks_[1] = peaks_[0];
    peaks_[0] = extreme_;
  } else {
    extreme_ = std::min(extreme_, live);
    if (live <= extreme_ + slack) return;
  }
  growing_ = !growing_;
  extreme_ = live;
}

std::uint32_t Phase::expected_peak() const {
  return std::max({peaks_[0], peaks_[1], growing_ ? extreme_ : 0U});
}

std::uint32_t Pager::reserve_runs() const { return std::clamp<std::uint32_t>(budget_ / 16, 4, 64); }

std::uint32_t Pager::spare_runs() const {
  const std::uint32_t allowed = budget_ > backed_ ? budget_ - backed_ : 0;
  const std::uint32_t excess = backed_ > budget_ ? backed_ - budget_ : 0;
  const std::uint32_t further = loaded_.size() - std::min(loaded_.size(), reads_in_flight);
  const std::uint32_t droppable = has_old_idle() ? 0 : further;
  const std::uint32_t have = staging_.free_frames() + recycled_.size() + cached_.size() + droppable + allowed;
  return have > excess ? have - excess : 0;
}

// Whether something is in DRAM that the current operations do not use.
bool Pager::has_old_idle() const {
  return !idle_.is_empty() && arrivals_ - runs_[idle_.front()].arrival >= budget_;
}

bool Pager::wants_eviction() const {
  if (mode_ != Mode::paging || !evicts_ || idle_.is_empty()) return false;
  const std::uint32_t leaving = staged_.size() + writes_;
  if (leaving >= writes_in_flight + most_queued) return false;
  if ((pool_full_ || tier_failing_) && os::now_ns() < retry_after_ns_) return false;
  if (spare_runs() + leaving < reserve_runs()) return true;
  const std::uint32_t peak = phase_.expected_peak() + reserve_runs();
  if (!outgrown_ || !phase_.growing() || peak <= budget_) return false;
  if (arrivals_ - runs_[idle_.front()].arrival < budget_ / 2) return false;
  return leaving + cached_.size() + stored_.size() < peak - budget_;
}

bool Pager::wants_read_ahead() const {
  if (mode_ == Mode::plain || stored_.is_empty() || reads_ >= reads_in_flight) return false;
  const std::uint32_t allowed = budget_ > backed_ ? budget_ - backed_ : 0;
  const std::uint32_t in_hand = staging_.free_frames() + recycled_.size() + allowed;
  if (mode_ == Mode::restore) return cursor_block_ != 0 && loaded_.size() < reads_in_flight;
  if (in_hand <= reserve_runs() / 2) return false;
  if (cursor_block_ != 0 && loaded_.size() < reads_in_flight) return true;
  return !phase_.growing() && (in_hand > reserve_runs() || has_old_idle());
}

bool Pager::wants_agent() const {
  if (mode_ == Mode::plain) return false;
  if (backed_ > budget_ && mode_ == Mode::paging && !pool_full_) return true;
  return pending_count_ > 0 || wants_eviction() || (wants_read_ahead() && !phase_.growing());
}

// Takes out the oldest idle run; one that came back before gets another round first, one of a long-lived
// block as many as there are. True as well when runs were only let through: there are more behind them.
bool Pager::evict_one() {
  LockGuard guard(*lock_);
  bool spared = false;
  for (unsigned scanned = 0; scanned < most_scanned && wants_eviction(); ++scanned) {
    tier_failing_ = false;
    pool_full_ = false;
    const std::uint32_t n = idle_.front();
    Run& r = runs_[n];
    if (r.heat > 0) {
      spared = true;
      --r.heat;
      delist(n);
      enlist(n);
      continue;
    }
    if (!stage(n)) continue;
    if (r.long_lived) r.heat = most_heat;
    return true;
  }
  return spared;
}

// What is expected next: the rest of the block that was touched or begun last, then the block evicted last.
std::uint32_t Pager::next_expected() {
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (cursor_block_ != 0) {
      for (std::uint32_t n = cursor_run_; n < run_count_ && runs_[n].block == cursor_block_; ++n) {
        if (runs_[n].state != RunState::stored) continue;
        cursor_run_ = n + 1;
        return n;
      }
    }
    cursor_block_ = 0;
    if (stored_.is_empty() || (phase_.growing() && mode_ == Mode::paging)) return none;
    const std::uint32_t last = stored_.back();
    if (runs_[last].block == 0) return last;
    cursor_block_ = runs_[last].block;
    cursor_run_ = space_->block(cursor_block_).first / granules_per_run;
  }
  return none;
}

bool Pager::read_ahead_one() {
  std::uint32_t n = none;
  {
    LockGuard guard(*lock_);
    if (!wants_read_ahead()) return false;
    n = next_expected();
  }
  return n != none && start_read(n, false);
}

// First come, first served. A run waits at the head until there is memory for it; one that the kernel
// refuses goes to the end. True: reads were begun, and may be over.
bool Pager::serve_pending() {
  bool reads = false;
  for (std::uint32_t refused = 0;;) {
    std::uint32_t n = none;
    {
      LockGuard guard(*lock_);
      if (pending_count_ <= refused) return reads;
      n = pending_[pending_head_ % run_count_];
      Run& r = runs_[n];
      if (r.stuck) {
        refused += serve_stuck(n) ? 0 : 1;
        continue;
      }
      if (r.state == RunState::empty && r.waiting) {
        if (!can_back()) return reads;
        r.queued = false;
        pop_pending();
        back(n) ? back_ahead(n) : static_cast<void>(++refused);
        continue;
      }
      if (r.state != RunState::stored) {
        r.queued = false;
        pop_pending();
        continue;
      }
    }
    if (!start_read(n, true)) return reads;
    reads = true;
    LockGuard guard(*lock_);
    runs_[n].queued = false;
    pop_pending();
  }
}

void Pager::pop_pending() {
  pending_head_ = (pending_head_ + 1) % run_count_;
  --pending_count_;
}

// Not again and again: part of its pages may come and go each time, which wakes who waits for them.
bool Pager::serve_stuck(std::uint32_t n) {
  runs_[n].queued = false;
  pop_pending();
  if (os::now_ns() >= retry_put_ns_) return unstage(n);
  enqueue(n);
  return false;
}

bool Pager::can_back() const {
  return staging_.free_frames() > 0 || !recycled_.is_empty() || backed_ < budget_ || mode_ == Mode::restore ||
         !cached_.is_empty() || !loaded_.is_empty();
}

// A thread waits, nothing could be evicted and nothing is under way: the pool is full or failing, or
// everything is pinned. Data is never dropped and the program never stopped for good: the budget gives way,
// and says so.
bool Pager::relieve() {
  LockGuard guard(*lock_);
  // Memory that the budget allows and the kernel has not will not come from a larger budget.
  if (backed_ < budget_ || pending_count_ <= stuck_runs_ || writes_ > 0 || reads_ > 0 || !staged_.is_empty())
    return false;
  budget_ = std::max(budget_, backed_) + 1;
  if (over_budget_told_) return true;
  over_budget_told_ = true;
  Message m(Severity::warning);
  m << "nothing more can leave DRAM (pool full or failing, or everything pinned): going over the budget, "
       "now ";
  m.bytes(budget_bytes());
  return true;
}

// The tier takes data again, or has room again: what went over the budget can leave.
void Pager::return_to_budget() {
  if (!evicts_ || budget_ <= asked_budget_ || tier_failing_ || pool_full_) return;
  budget_ = asked_budget_;
  if (back_in_budget_told_) return;
  back_in_budget_told_ = true;
  Message m(Severity::warning);
  m << "the pool takes data again: back to the budget of ";
  m.bytes(budget_bytes());
}

// What was leaving is put back under its address; what the device is still reading follows when it is done.
void Pager::stop_evicting() {
  evicts_ = false;
  over_budget_told_ = true;  // who stopped it says so
  while (!staged_.is_empty()) unstage(staged_.front());
  while (!cached_.is_empty()) restore_cached(cached_.front());
  while (!loaded_.is_empty()) restore_cached(loaded_.front());
}

void Pager::resume_evicting() {
  evicts_ = true;
  over_budget_told_ = false;
  budget_ = asked_budget_;
}

void Pager::unlock_memory() {
  os::unlock(base_, std::size_t{run_count_} * run_bytes);
  staging_.unlock();
  if (mover_ != nullptr) mover_->unlock();
}

bool Pager::shed_excess() {
  LockGuard guard(*lock_);
  if (mode_ != Mode::paging || backed_ <= budget_) return false;
  if (staging_.drop_free()) {
    --backed_;
  } else if (!recycled_.is_empty() && drop_recycled(recycled_.front())) {
    return true;
  } else if (!cached_.is_empty() || !loaded_.is_empty()) {
    reclaim(!cached_.is_empty() ? cached_.front() : loaded_.back());
  } else {
    return false;
  }
  return true;
}

// One round. The agent looks for faults between rounds, so a round starts a few transfers at most.
bool Pager::balance() {
  bool progress = serve_pending();
  for (int i = 0; i < 64 && shed_excess(); ++i) progress = true;
  progress |= evict_one();
  progress |= start_write();
  progress |= read_ahead_one();
  return progress || relieve();
}

void Pager::advise(std::uint32_t first_run, std::uint32_t last_run, terrace_advice advice) {
  for (std::uint32_t n = last_run + 1; n-- > first_run;) {
    Run& r = runs_[n];
    if (advice == TERRACE_ADVISE_WILL_NEED) {
      const std::uint32_t ascending = first_run + (last_run - n);
      if (runs_[ascending].state == RunState::stored) enqueue(ascending);
      continue;
    }
    if (mode_ != Mode::paging || !evicts_) continue;
    const bool page_out = advice == TERRACE_ADVISE_PAGE_OUT;
    if (r.state == RunState::resident && r.live > 0 && r.pins == 0) stage(n);
    const bool leaving = r.state == RunState::staged || r.state == RunState::writing;
    if (leaving) r.page_out = page_out;
    if (page_out && r.state == RunState::cached) reclaim(n);
  }
}

}  // namespace terrace::liballoc
