#include "liballoc/paging/pager.h"

#include <algorithm>

#include "liballoc/base/message.h"
#include "liballoc/base/os.h"

namespace terrace::liballoc {
namespace {

constexpr std::uint64_t frames_share = 4;
constexpr std::uint32_t least_frames = 64;

// Frames are address space: as many as the machine could ever back, and what the budget allows at most. Of
// what a limit allows, the heap has taken half.
std::uint32_t frames_of_machine() {
  const auto pages = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES));
  const std::uint64_t allowed = os::mapping_limit() / frames_share / run_bytes;
  return static_cast<std::uint32_t>(std::min(pages * os::page_bytes / run_bytes + 64, allowed));
}

}  // namespace

// ---- set-up -----------------------------------------------------------------------------------------------

int Pager::initialise(std::byte* base, std::size_t bytes, std::uint32_t most_blocks, BlockQueue* queue,
                      FreeRuns* free_runs) {
  queue_ = queue;
  blocks_follower_.use(queue);
  most_blocks_ = most_blocks;
  placement_.use(queue);
  placement_.tell(learner_);
  faults_.tell(learner_);
  clock_.tell(learner_);
  learner_.use(queue, most_blocks);
  frames_.use(free_runs);
  const int error = runs_.initialise({base, static_cast<std::uint32_t>(bytes / run_bytes)});
  if (error != 0 || line_.initialise() != 0 || blocks_.initialise(most_blocks) != 0) return ENOMEM;
  if (policy_.initialise(most_blocks) != 0) return ENOMEM;
  clock_.tell(policy_);
  policy_.use(&learner_);
  return extents_.initialise();
}

void Pager::use(Mover* mover) {
  mover_ = mover;
  placement_.use(mover);
  transfers_.use(mover);
  faults_.use(mover);
  blocks_follower_.use(mover);
}

int Pager::activate(Mover* mover, tiers::Tier* tier, Client* client, std::uint64_t budget_bytes,
                    Compression compression, Workers* workers) {
  use(mover);
  transfers_.use(workers);
  extents_.use(tier);
  accounts_.tell_to(client);
  const std::uint32_t frames = frames_of_machine();
  if (frames < least_frames) return ENOMEM;
  if (const int error = frames_.initialise(frames, mover); error != 0) return error;
  if (operations_.initialise() != 0) return ENOMEM;
  shelf_memory_.lend_to(*tier, *mover);
  division_.compress(compression, budget_bytes);
  standing_.mode = Mode::dormant;
  set_budget(budget_bytes);
  return 0;
}

// From here on every page of the heap comes from us, so that advice about huge pages makes none where there
// would be none. It keeps those that there are: a fault in a mapping without it leaves an empty page table
// for as long as it waits, and a huge page that is moved to where one is is split, for good.
int Pager::watch() {
  const int error = mover_->watch(runs_.heap().base, runs_.heap().bytes());
  if (error != 0) standing_.mode = Mode::plain;
  if (error == 0) os::advise(runs_.heap().base, runs_.heap().bytes(), MADV_HUGEPAGE);
  return error;
}

void Pager::take_over() {
  forking_.hide_heap(true);
  standing_.mode = Mode::paging;
  clock_.begin(most_blocks_);
  adoption_.adopt_resident();
}

int Pager::start_restoring(Mover* mover) {
  use(mover);
  return forking_.start_restoring(mover);
}

// What was leaving is put back under its address; what the device is still reading follows when it is done.
void Pager::stop_evicting() {
  standing_.is_locked = true;
  over_budget_told_ = true;  // who stopped it says so
  placement_.put_all_back();
}

void Pager::resume_evicting() {
  standing_.is_locked = false;
  over_budget_told_ = false;
  budget_.return_to_asked();
}

void Pager::unlock_memory() {
  os::unlock(runs_.heap().base, runs_.heap().bytes());
  staging_.unlock();
  shelf_memory_.unlock();
  if (mover_ != nullptr) mover_->unlock();
}

// ---- the agent's steps ------------------------------------------------------------------------------------

void Pager::handle_fault(const Fault& fault) {
  follow_blocks();
  faults_.handle(fault);
}

// The agent looks for faults between rounds, so a round starts a few transfers at most.
bool Pager::balance() {
  constexpr int most_shed = 64;
  follow_blocks();
  division_.follow_compressed();
  bool progress = faults_.serve_line();
  if (budget_.kept_runs() > 0) progress |= serve_from_memory();
  for (int i = 0; i < most_shed && frames_.shed(); ++i) progress = true;
  progress |= evict_one();
  progress |= transfers_.start_write();
  progress |= return_some();
  progress |= transfers_.read_ahead_one();
  progress |= learner_.probe_some();
  // Last, as what came since is not read yet: the program wakes the agent when something is due.
  progress |= queue_->wake_after(events_to_wait_for());
  return progress || relieve();
}

// What comes out of memory is there as soon as it was asked for, and nobody waits for it longer than that:
// before anything is written. Then the next one, as its decoding takes as long as the program takes to come
// there.
bool Pager::serve_from_memory() {
  transfers_.handle_completions(false);
  return transfers_.fetch_kept_ahead();
}

// Until which nothing is to be done that no fault or transfer brings; 0: nothing at all.
std::uint32_t Pager::events_to_wait_for() const {
  const std::uint32_t planned = policy_.plan().events_to_trigger(), probed = learner_.events_to_probe();
  return planned == 0 || probed == 0 ? planned + probed : std::min(planned, probed);
}

// What the plan wants back and is in a frame goes under its address before it is touched. A few at a time:
// faults wait meanwhile.
bool Pager::return_some() {
  constexpr int most_at_once = 8;
  bool progress = false;
  for (int i = 0; i < most_at_once; ++i) {
    const std::uint32_t n = policy_.next_return();
    if (n == none) break;
    progress = true;
    if (runs_[n].state == RunState::staged) {
      placement_.unstage(n);
    } else {
      ++accounts_.counts.prefetch_hits;
      placement_.restore(n);
    }
  }
  return progress;
}

void Pager::look_for_thrashing(std::uint64_t now_ns) {
  if (standing_.mode != Mode::paging || !thrashing_.is_due(now_ns)) return;
  const terrace_statistics& counts = accounts_.counts;
  if (!thrashing_.look(now_ns, {counts.stall_ns, counts.evicted_bytes, counts.refaulted_bytes})) return;
  Message m(Severity::warning);
  m << "the job mostly waits for pages that it needed again at once (";
  m.bytes(counts.refaulted_bytes) << " so far): what it works on does not fit into its DRAM budget of ";
  m.bytes(budget_.bytes()) << "; give it more by --dram or --limit";
}

bool Pager::wants_agent() const {
  if (!is_paging()) return false;
  if (budget_.is_over() && standing_.mode == Mode::paging && !extents_.is_full()) return true;
  return !line_.is_empty() || policy_.wants_agent();
}

bool Pager::release_held(bool at_once) {
  const std::uint32_t n = policy_.next_release(at_once);
  if (n == none) return false;
  runs_.stop_holding(n);
  return true;
}

// Takes out a run. True as well when runs were only let through: there are more behind them.
bool Pager::evict_one() {
  constexpr unsigned most_refused = 64;
  if (!policy_.wants_eviction()) return false;
  const bool has_room = extents_.may_be_asked();  // else only what needs none leaves
  if (has_room) extents_.ask_again();
  if (has_room && release_held(false)) return true;
  bool was_spared = false;
  for (unsigned i = 0; i < most_refused && policy_.wants_eviction(); ++i) {
    const Policy::Victim victim = policy_.next_victim();
    was_spared |= victim.was_spared;
    if (victim.run == none) break;
    if (placement_.stage(victim.run)) {
      policy_.on_leave(victim.run);
      return true;
    }
    follow_blocks();  // what refused it may be a note that was not read yet
  }
  if (was_spared || (has_room && release_held(true))) return true;
  // What is only looked at makes no room, but may be taken out once it is back.
  const RunList& probed = runs_.lists().probed;
  return !probed.is_empty() && placement_.end_probe(probed.front());
}

// A thread waits, nothing could be evicted and nothing is under way: the pool is full or failing, or
// everything is pinned. Data is never dropped and the program never stopped for good: the budget gives way,
// and says so.
bool Pager::relieve() {
  // Memory that the budget allows and the kernel has not will not come from a larger budget. What is held is
  // written only while the tier may be asked: until then it makes no room.
  const bool is_held_to_leave = !runs_.lists().held.is_empty() && extents_.may_be_asked();
  const bool is_leaving = !runs_.lists().staged.is_empty() || is_held_to_leave;
  const bool somebody_waits = line_.size() > placement_.stuck_runs();
  if (budget_.has_room_for(pages_per_run) || !somebody_waits || !transfers_.are_none() || is_leaving)
    return false;
  budget_.give_way();
  if (over_budget_told_) return true;
  over_budget_told_ = true;
  Message m(Severity::warning);
  m << "nothing more can leave DRAM (pool full, failing or not to be written, or everything pinned): going "
       "over the budget, "
       "now ";
  m.bytes(budget_.bytes());
  return true;
}

// ---- what the program asks for ----------------------------------------------------------------------------

void Pager::forget(const std::byte* begin, const std::byte* end) {
  for (std::uint32_t n = runs_.heap().run_of(begin); n <= runs_.heap().run_of(end - 1); ++n) {
    const std::byte* const from = std::max<const std::byte*>(begin, runs_.heap().address(n));
    const std::byte* const to = std::min<const std::byte*>(end, runs_.heap().address(n) + run_bytes);
    placement_.forget(n, {runs_.heap().page_of(from), runs_.heap().page_of(to - os::page_bytes) + 1});
  }
}

void Pager::advise(std::uint32_t first_run, std::uint32_t last_run, terrace_advice advice) {
  if (advice == TERRACE_ADVISE_WILL_NEED) {
    for (std::uint32_t n = first_run; n <= last_run; ++n) {
      const Run& r = runs_[n];
      const bool may_be_away = r.state == RunState::stored || r.state == RunState::resident;
      if (may_be_away && !runs_.pages(n).away().is_empty()) line_.join(n);
    }
    return;
  }
  policy_.on_advice();
  if (standing_.mode != Mode::paging || !standing_.evicts()) return;
  for (std::uint32_t n = last_run + 1; n-- > first_run;) send_out(n, advice == TERRACE_ADVISE_PAGE_OUT);
}

// As a whole, whatever its touches were.
void Pager::send_out(std::uint32_t n, bool page_out) {
  Run& r = runs_[n];
  {
    const RunTable::Change change(runs_, n);
    r.scattered = r.held = r.probed = false;
  }
  if (r.state == RunState::resident && r.live > 0 && r.pins == 0) placement_.stage(n);
  const bool leaving = r.state == RunState::staged || r.state == RunState::writing;
  if (leaving) r.page_out = page_out;
  if (page_out && r.state == RunState::cached) frames_.reclaim(n);
}

// ---- accounts ---------------------------------------------------------------------------------------------

bool Pager::is_quiet() const {
  return runs_.lists().staged.is_empty() && transfers_.are_none() && line_.is_empty() &&
         !policy_.wants_eviction();
}

void Pager::estimate_resident(std::uint64_t bytes) {
  estimate_bytes_ = bytes;
  budget_.note_peak(bytes);
}

void Pager::fill(terrace_statistics* out) const {
  const std::size_t size = out->size;
  *out = accounts_.counts;
  out->size = size;
  out->resident_bytes = is_paging() ? budget_.held_bytes() - budget_.swapped_bytes() : estimate_bytes_;
  out->resident_peak_bytes = budget_.peak_bytes();
  out->recycled_bytes = (std::uint64_t{runs_.lists().recycled.size()} + staging_.free_frames()) * run_bytes;
  out->staging_bytes = std::uint64_t{frames_.used()} * run_bytes;
  out->stored_bytes = std::uint64_t{runs_.lists().stored.size()} * run_bytes;
  out->budget_bytes = budget_.bytes() + budget_.kept_bytes();
  out->compressed_bytes = budget_.kept_bytes();
  const tiers::Demoted demoted = extents_.demoted();
  out->demoted_bytes = demoted.to_drives_bytes;
  out->written_bytes += demoted.to_drives_bytes;
  out->nvm_bytes = extents_.bytes_on(tiers::Medium::nvm);
  out->nvm_written_bytes += demoted.to_nvm_bytes;
  out->nvm_read_bytes += demoted.from_nvm_bytes;
  std::copy_n(codec_.statistics(), TERRACE_CODECS, out->codecs);
}

}  // namespace terrace::liballoc
