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
  const std::uint32_t backed = backed_runs();
  const std::uint32_t allowed = budget_ > backed ? budget_ - backed : 0;
  const std::uint32_t excess = backed > budget_ ? backed - budget_ : 0;
  const std::uint32_t further = loaded_.size() - std::min(loaded_.size(), reads_in_flight);
  const std::uint32_t droppable = has_old_idle() ? 0 : further;
  const auto cached = static_cast<std::uint32_t>(cached_pages_ / pages_per_run);
  const std::uint32_t have = staging_.free_frames() + recycled_.size() + cached + droppable + allowed;
  return have > excess ? have - excess : 0;
}

// Whether something is in DRAM that the current operations do not use.
bool Pager::has_old_idle() const {
  return !idle_.is_empty() && arrivals_ - runs_[idle_.front()].arrival >= budget_;
}

// How many runs a stream needs.
std::uint32_t Pager::stream_window() const { return std::clamp<std::uint32_t>(budget_ / 8, 8, 64); }
bool Pager::is_streaming() const { return streamed_.size() >= stream_window() / 2; }

// Which runs are to leave next: those that came to be streamed once there are more than a stream needs, else
// those that came longest ago. nullptr: none.
RunList* Pager::next_victims() {
  if (streamed_.size() > stream_window() || (idle_.is_empty() && !streamed_.is_empty())) return &streamed_;
  return idle_.is_empty() ? nullptr : &idle_;
}

bool Pager::wants_eviction() const {
  if (mode_ != Mode::paging || !evicts_) return false;
  if (idle_.is_empty() && streamed_.is_empty() && held_.is_empty()) return false;
  const std::uint32_t leaving = staged_.size() + writes_;
  if (leaving >= writes_in_flight + most_queued) return false;
  if ((pool_full_ || tier_failing_) && os::now_ns() < retry_after_ns_) return false;
  if (spare_runs() + leaving < reserve_runs()) return true;
  const std::uint32_t peak = phase_.expected_peak() + reserve_runs();
  if (!outgrown_ || !phase_.growing() || peak <= budget_ || idle_.is_empty()) return false;
  if (arrivals_ - runs_[idle_.front()].arrival < budget_ / 2) return false;
  return leaving + cached_.size() + away_runs() < peak - budget_;
}

// How much of the data has no memory, in runs: of some only a part is there.
std::uint32_t Pager::away_runs() const {
  const std::uint32_t unused = staging_.free_frames() + recycled_.size();
  const std::uint32_t used = backed_runs() - std::min(backed_runs(), unused);
  return data_runs_ - std::min(data_runs_, used);
}

bool Pager::wants_read_ahead() const {
  if (!is_paging() || stored_.is_empty() || reads_ >= reads_ahead) return false;
  const std::uint32_t backed = backed_runs();
  const std::uint32_t allowed = budget_ > backed ? budget_ - backed : 0;
  const std::uint32_t in_hand = staging_.free_frames() + recycled_.size() + allowed;
  const bool has_hint = cursor_block_ != 0 || !ahead_.is_empty();
  if (mode_ == Mode::restore) return has_hint && loaded_.size() < reads_in_flight;
  if (in_hand <= reserve_runs() / 2 && !(is_streaming() && !cached_.is_empty())) return false;
  if (has_hint && loaded_.size() < reads_in_flight) return true;
  return !phase_.growing() && (in_hand > reserve_runs() || has_old_idle());
}

bool Pager::wants_agent() const {
  if (!is_paging()) return false;
  if (backed_pages_ > budget_pages() && mode_ == Mode::paging && !pool_full_) return true;
  return pending_count_ > 0 || wants_eviction() || (wants_read_ahead() && !phase_.growing());
}

// What is held has had its time: what of it was not touched again is written. Not before there is enough of
// it, so that there is time to touch it.
bool Pager::release_held(bool at_once) {
  const std::uint64_t enough = budget_pages() / 16;
  if (held_.is_empty() || (!at_once && held_pages_ < enough && next_victims() != nullptr)) return false;
  const std::uint32_t n = held_.front();
  delist(n);
  runs_[n].held = false;
  enlist(n);
  return true;
}

// Takes out a run; one that came back before gets another round first, one of a long-lived block as many as
// there are. True as well when runs were only let through: there are more behind them.
bool Pager::evict_one() {
  if (!wants_eviction()) return false;
  tier_failing_ = false;
  pool_full_ = false;
  if (release_held(false)) return true;
  bool spared = false;
  for (unsigned scanned = 0; scanned < most_scanned && wants_eviction(); ++scanned) {
    const RunList* const victims = next_victims();
    if (victims == nullptr) break;
    const std::uint32_t n = victims->front();
    Run& r = runs_[n];
    if (r.heat > 0 && victims == &idle_) {
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
  return spared || release_held(true);
}

// What is expected next: what followed last time, the rest of the block that was touched or begun last, then
// the block evicted last.
std::uint32_t Pager::next_expected() {
  for (std::uint32_t n = ahead_.pop(); n != none; n = ahead_.pop())
    if (n < top_run_ && runs_[n].state == RunState::stored && !runs_[n].scattered && !runs_[n].queued)
      return n;
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (cursor_block_ != 0) {
      for (std::uint32_t n = cursor_run_; n < run_count_ && runs_[n].block == cursor_block_; ++n) {
        if (runs_[n].state != RunState::stored || runs_[n].scattered) continue;
        cursor_run_ = n + 1;
        return n;
      }
    }
    cursor_block_ = 0;
    if (stored_.is_empty() || (phase_.growing() && mode_ == Mode::paging)) return none;
    const std::uint32_t last = stored_.back();
    if (runs_[last].scattered) return none;
    if (runs_[last].block == 0) return last;
    cursor_block_ = runs_[last].block;
    cursor_run_ = last;
    // Back to where the block begins to be away: it is wanted from its beginning.
    const std::uint32_t first = blocks_[cursor_block_].first_run();
    while (cursor_run_ > first && runs_[cursor_run_ - 1].block == cursor_block_) --cursor_run_;
  }
  return none;
}

bool Pager::read_ahead_one() {
  if (!wants_read_ahead()) return false;
  const std::uint32_t n = next_expected();
  return n != none && start_read(n, false);
}

// First come, first served. A run waits at the head until there is memory for it; one that the kernel
// refuses goes to the end. True: reads were begun, and may be over.
bool Pager::serve_pending() {
  bool reads = false;
  for (std::uint32_t refused = 0; pending_count_ > refused;) {
    const std::uint32_t n = pending_[pending_head_ % run_count_];
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
    const bool is_away = r.state == RunState::stored || r.state == RunState::resident;
    const bool is_read = is_away && !pages_[n].away().is_empty();
    if (is_read && !start_read(n, true)) return reads;
    reads |= is_read;
    runs_[n].queued = false;
    pop_pending();
    // It is not what it was when it came into the queue: who waits for some page of it asks again.
    if (!is_read && r.live > 0) mover_->wake(run_address(n), run_bytes);
  }
  return reads;
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
  return staging_.free_frames() > 0 || !recycled_.is_empty() ||
         backed_pages_ + pages_per_run <= budget_pages() || mode_ == Mode::restore || !cached_.is_empty() ||
         !loaded_.is_empty();
}

// A thread waits, nothing could be evicted and nothing is under way: the pool is full or failing, or
// everything is pinned. Data is never dropped and the program never stopped for good: the budget gives way,
// and says so.
bool Pager::relieve() {
  // Memory that the budget allows and the kernel has not will not come from a larger budget.
  if (backed_pages_ + pages_per_run <= budget_pages() || pending_count_ <= stuck_runs_ || writes_ > 0 ||
      reads_ > 0 || pieces_ > 0 || !staged_.is_empty() || !held_.is_empty())
    return false;
  budget_ = std::max(budget_, backed_runs()) + 1;
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
  while (!staged_.is_empty() && unstage(staged_.front())) continue;
  while (!held_.is_empty() && unstage(held_.front())) continue;
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
  if (mode_ != Mode::paging || backed_pages_ <= budget_pages()) return false;
  if (const std::uint32_t dropped = staging_.drop_free(); dropped > 0) {
    lose_memory(dropped);
  } else if (!recycled_.is_empty() && drop_recycled(recycled_.front())) {
    return true;
  } else if (can_reclaim()) {
    reclaim_one();
  } else {
    return false;
  }
  return true;
}

// One round. The agent looks for faults between rounds, so a round starts a few transfers at most.
bool Pager::balance() {
  follow_blocks();
  bool progress = serve_pending();
  for (int i = 0; i < 64 && shed_excess(); ++i) progress = true;
  progress |= evict_one();
  progress |= start_write();
  progress |= read_ahead_one();
  return progress || relieve();
}

void Pager::advise(std::uint32_t first_run, std::uint32_t last_run, terrace_advice advice) {
  if (advice != TERRACE_ADVISE_WILL_NEED) {
    ahead_.clear();  // what was expected before this was said
    cursor_block_ = 0;
  }
  for (std::uint32_t n = last_run + 1; n-- > first_run;) {
    if (advice == TERRACE_ADVISE_WILL_NEED) {
      const std::uint32_t ascending = first_run + (last_run - n);
      const Run& r = runs_[ascending];
      const bool is_away = r.state == RunState::stored || r.state == RunState::resident;
      if (is_away && !pages_[ascending].away().is_empty()) enqueue(ascending);
      continue;
    }
    if (mode_ == Mode::paging && evicts_) send_out(n, advice == TERRACE_ADVISE_PAGE_OUT);
  }
}

// As a whole, whatever its touches were.
void Pager::send_out(std::uint32_t n, bool page_out) {
  Run& r = runs_[n];
  delist(n);
  r.scattered = r.held = false;
  enlist(n);
  if (r.state == RunState::resident && r.live > 0 && r.pins == 0) stage(n);
  const bool leaving = r.state == RunState::staged || r.state == RunState::writing;
  if (leaving) r.page_out = page_out;
  if (page_out && r.state == RunState::cached) reclaim(n);
}

}  // namespace terrace::liballoc
