#include "liballoc/paging/policy/reactive_policy.h"

#include <algorithm>

#include "liballoc/paging/transfers/transfers.h"

namespace terrace::liballoc {
namespace {

constexpr std::uint32_t most_queued = 2;  // staged beyond the writes in flight
constexpr unsigned most_scanned = 64;
constexpr std::uint32_t least_idle = 2;  // runs that make room before what is hot does
constexpr std::uint32_t few = 1;         // of 16
constexpr std::uint32_t most_of_all = 12;

}  // namespace

// ---- what happens -----------------------------------------------------------------------------------------

void ReactivePolicy::on_blocks_changed() { phase_.update(parts_.runs.data_runs(), reserve_runs()); }

// What is hot was spared for it.
void ReactivePolicy::on_missing(std::uint32_t n) {
  Run& r = parts_.runs[n];
  const bool is_straight = parts_.runs.arrivals() - r.left <= std::max(parts_.budget.runs() / 16, 4U);
  if (r.left_as_usual && is_straight) looks_.note_usual_back();
  r.left_as_usual = false;
}

void ReactivePolicy::on_use(std::uint32_t n, bool from_tier) {
  let_late_ones_go_by();
  lookahead_.note_use(from_tier, parts_.accounts.counts.prefetch_wasted);
  ahead_.used(thread_, n, parts_.runs.arrivals(), [this](std::uint32_t at) { return may_be_read(at); });
  follow(n, from_tier);
  used_last_ = n;
}

// Also by what was read ahead and is used now: behind it lies what was used, and may have left since.
void ReactivePolicy::follow(std::uint32_t n, bool from_tier) {
  constexpr std::uint32_t most_ahead = 64;
  const std::uint32_t block = parts_.runs[n].block;
  const bool is_ahead = cursor_run_ > n && cursor_run_ - n <= most_ahead;
  if (!from_tier && (block != cursor_block_ || is_ahead)) return;
  cursor_block_ = block;
  cursor_run_ = n + 1;
}

void ReactivePolicy::on_recall(std::uint32_t n) { note_back(n); }

void ReactivePolicy::note_back(std::uint32_t n) {
  Run& r = parts_.runs[n];
  const std::uint32_t arrivals_ago = parts_.runs.arrivals() - r.left;
  window_.note_return(arrivals_ago, parts_.budget.runs());
  tight_window_.note_return(r.left_turn, arrivals_ago, parts_.budget.runs());
  r.left_turn = Turn::usual;
}

bool ReactivePolicy::on_return(std::uint32_t n) {
  if (parts_.standing.kernel_swaps) return false;
  Run& r = parts_.runs[n];
  note_back(n);
  insertion_.note_return(parts_.runs.arrivals());
  if (leaves_last(n) && parts_.runs.lists().idle.size() >= least_idle) return false;
  const std::uint32_t budget = parts_.budget.runs();
  const std::uint32_t goes_by = stream_window() + most_loaded() + reserve_runs();
  const std::uint32_t room = budget - std::min(budget, goes_by);
  const bool streams = insertion_.streams(parts_.runs.arrivals() - r.came, room, r.returns);
  streams_.note(streams);
  return streams;
}

bool ReactivePolicy::is_dense(std::uint32_t n) const {
  return parts_.runs.pages(n).in_place.count() >= pages_per_run / 2 &&
         parts_.runs.age(n) <= 2 * parts_.budget.runs();
}

// It came straight back, and its way out was not for free: whoever takes it out again moves it twice. What a
// hint says goes before what was seen.
bool ReactivePolicy::leaves_last(std::uint32_t n) const {
  if (parts_.standing.kernel_swaps) return false;
  const Run& r = parts_.runs[n];
  return r.was_dirty && !r.cold && parts_.runs.arrivals() - r.left <= parts_.budget.runs();
}

// A run of a long-lived block gets as many rounds anew as it had.
void ReactivePolicy::on_leave(std::uint32_t n) {
  Run& r = parts_.runs[n];
  if (r.long_lived) r.heat = most_heat;
  writes_.note(r.was_dirty || !r.has_slot);  // as it was the last time
}

void ReactivePolicy::on_advice() {
  ahead_.clear();
  cursor_block_ = 0;
  used_last_ = none;
}

void ReactivePolicy::on_fork() { on_advice(); }

// ---- counts -----------------------------------------------------------------------------------------------

// Most of the memory holds what comes straight back whenever it leaves.
bool ReactivePolicy::is_tight() const { return parts_.runs.lists().hot.size() > parts_.budget.runs() / 2; }

// Every run more in reserve is one run less of what is hot, or of the part of a cycle that stays.
std::uint32_t ReactivePolicy::reserve_runs() const {
  const std::uint32_t budget = parts_.budget.runs();
  const bool is_small = is_tight() || (is_streaming() && leaves_clean());
  return is_small ? std::clamp<std::uint32_t>(budget / 64, 3, 64)
                  : std::clamp<std::uint32_t>(budget / 16, 4, 64);
}

// In their frames, for what is touched again.
std::uint64_t ReactivePolicy::pages_to_hold() const { return parts_.budget.pages() / (is_tight() ? 64 : 16); }

// Memory that holds nothing.
std::uint32_t ReactivePolicy::unused_runs() const {
  return parts_.staging.free_frames() + parts_.runs.lists().recycled.size();
}

std::uint32_t ReactivePolicy::spare_runs() const {
  const std::uint32_t loaded = parts_.runs.lists().loaded.size();
  const std::uint32_t droppable = has_old_idle() ? 0 : loaded - std::min(loaded, Transfers::reads_in_flight);
  const auto cached = static_cast<std::uint32_t>(parts_.runs.cached_pages() / pages_per_run);
  const std::uint32_t have = unused_runs() + cached + droppable + parts_.budget.allowed_runs();
  return have - std::min(have, parts_.budget.excess_runs());
}

// How much of the data has no memory, in runs: of some only a part is there.
std::uint32_t ReactivePolicy::away_runs() const {
  const std::uint32_t backed = parts_.budget.backed_runs();
  const std::uint32_t used = backed - std::min(backed, unused_runs());
  const std::uint32_t data = parts_.runs.data_runs();
  return data - std::min(data, used);
}

// Whether something is in DRAM that the current operations do not use.
bool ReactivePolicy::has_old_idle() const {
  const RunList& idle = parts_.runs.lists().idle;
  return !idle.is_empty() && parts_.runs.age(idle.front()) >= parts_.budget.runs();
}

std::uint32_t ReactivePolicy::stream_window() const { return window_.runs(parts_.budget.runs()); }
// Where the job streams, what an operation touches at once can be there before.
std::uint32_t ReactivePolicy::most_loaded() const {
  const std::uint32_t most = std::max(parts_.budget.runs() / 8, Lookahead::least);
  return is_streaming() ? std::min(most, lookahead_.runs()) : Transfers::reads_in_flight;
}
// Hardly anything that leaves has to be written: it takes no longer than its sums.
bool ReactivePolicy::leaves_clean() const { return !writes_.exceeds(few); }
// Where most of what returns goes by, a few that are there say so.
bool ReactivePolicy::is_streaming() const {
  const std::uint32_t window =
      streams_.exceeds(most_of_all) ? stream_window() : StreamWindow::most(parts_.budget.runs());
  return parts_.runs.lists().streamed.size() >= window / 2;
}

// ---- what leaves ------------------------------------------------------------------------------------------

bool ReactivePolicy::wants_eviction() const {
  if (parts_.standing.mode != PagerMode::paging || !parts_.standing.evicts()) return false;
  const RunLists& lists = parts_.runs.lists();
  const bool has_resident = !lists.idle.is_empty() || !lists.streamed.is_empty() || !lists.hot.is_empty();
  if (!has_resident && lists.held.is_empty() && lists.probed.is_empty()) return false;
  const std::uint32_t leaving = lists.staged.size() + parts_.operations.writes();
  if (leaving >= Transfers::writes_in_flight + most_queued) return false;
  if (!parts_.extents.may_be_asked() && first_with_extent() == none) return false;
  if (spare_runs() + leaving < reserve_runs()) return true;
  const std::uint32_t budget = parts_.budget.runs();
  const std::uint32_t peak = phase_.expected_peak() + reserve_runs();
  if (!parts_.budget.is_outgrown() || !phase_.growing() || peak <= budget || lists.idle.is_empty())
    return false;
  if (parts_.runs.age(lists.idle.front()) < budget / 2) return false;
  return leaving + lists.cached.size() + away_runs() < peak - budget;
}

// Those that came to be streamed once there are more than a stream needs, else those that came longest ago;
// of what is hot one now and then, as it may have cooled down: what has not comes back and is hot again.
// Where nearly all is hot, what is streamed makes room alone, so that the rest stays. nullptr: none.
const RunList* ReactivePolicy::next_victims() const {
  const RunLists& lists = parts_.runs.lists();
  if (lists.streamed.size() > stream_window()) return &lists.streamed;
  if (!lists.hot.is_empty()) {
    if (looks_.is_due()) return &lists.hot;
    const std::uint32_t needed = tight_window_.runs(parts_.budget.runs());
    if (lists.idle.size() < least_idle) return lists.streamed.size() > needed ? &lists.streamed : &lists.hot;
  }
  if (!lists.idle.is_empty()) return &lists.idle;
  return lists.streamed.is_empty() ? nullptr : &lists.streamed;
}

// Among those that came at least half as long ago as the first: one that DRAM will hold as a smaller frame
// leaves without a write.
std::uint32_t ReactivePolicy::first_that_shrinks(const RunList& list) const {
  constexpr unsigned most_looks = 128;
  const std::uint32_t first = list.front();
  if (!parts_.extents.has_room_in_dram()) return first;
  const std::uint32_t least_age = parts_.runs.age(first) / 2;
  std::uint32_t n = first;
  for (unsigned looks = 0; n != none && looks < most_looks; n = parts_.runs[n].next, ++looks) {
    if (parts_.runs.age(n) < least_age) break;
    if (parts_.runs[n].shrinks && parts_.runs[n].heat == 0) return n;
  }
  return first;
}

// A look may have shown whether what is hot still is.
void ReactivePolicy::settle_look() {
  const std::uint32_t n = looks_.run();
  if (n == none) return;
  const bool is_back = parts_.runs[n].left != looks_.begun() || !parts_.runs.pages(n).in_place.is_empty();
  looks_.settle(is_back, parts_.runs.arrivals(), parts_.budget.runs());
}

// While the pool has no room, what has an extent leaves into it, or without a write: of those, which came
// longest ago. Where writes fail, none.
std::uint32_t ReactivePolicy::first_with_extent() const {
  if (parts_.extents.is_failing()) return none;
  const RunLists& lists = parts_.runs.lists();
  for (const RunList* const list : {&lists.streamed, &lists.idle, &lists.hot}) {
    std::uint32_t n = list->front();
    for (unsigned i = 0; i < most_scanned && n != none; n = parts_.runs[n].next, ++i)
      if (parts_.extents.has_own(parts_.runs[n])) return n;
  }
  return none;
}

// One that came back before gets another round first, one of a long-lived block as many as there are.
Policy::Victim ReactivePolicy::next_victim() {
  Victim victim;
  if (!parts_.extents.may_be_asked()) {
    victim.run = first_with_extent();
    return victim;
  }
  settle_look();
  for (unsigned scanned = 0; scanned < most_scanned; ++scanned) {
    const RunList* const victims = next_victims();
    if (victims == nullptr) break;
    const std::uint32_t n =
        victims == &parts_.runs.lists().idle ? first_that_shrinks(*victims) : victims->front();
    if (parts_.runs[n].heat == 0 || victims != &parts_.runs.lists().idle) {
      if (victims == &parts_.runs.lists().hot && looks_.is_due()) looks_.begin(n, parts_.runs.arrivals());
      looks_.note_leave();
      if (victims == &parts_.runs.lists().streamed) window_.note_leave();
      parts_.runs[n].left_as_usual = victims == &parts_.runs.lists().idle;
      parts_.runs[n].left_turn = parts_.runs[n].turn;
      victim.run = n;
      break;
    }
    const RunTable::Change change(parts_.runs, n);
    --parts_.runs[n].heat;
    victim.was_spared = true;
  }
  return victim;
}

// What of it was not touched again is written; not before there is enough of it, so that there is time to
// touch it.
std::uint32_t ReactivePolicy::next_release(bool at_once) {
  const RunList& held = parts_.runs.lists().held;
  const bool may_wait = parts_.runs.held_pages() < pages_to_hold() && next_victims() != nullptr;
  return held.is_empty() || (!at_once && may_wait) ? none : held.front();
}

// ---- what comes back --------------------------------------------------------------------------------------

bool ReactivePolicy::wants_read_ahead() const {
  const RunLists& lists = parts_.runs.lists();
  if (!parts_.standing.is_paging() || lists.stored.is_empty()) return false;
  const OperationTable& operations = parts_.operations;
  const std::uint32_t most = operations.read_depth();
  if (operations.reads_in_device() >= most || operations.reads() >= 2 * most) return false;
  const std::uint32_t in_hand = unused_runs() + parts_.budget.allowed_runs();
  const bool has_hint = cursor_block_ != 0 || !ahead_.is_empty();
  const bool has_few = lists.loaded.size() < most_loaded();
  if (parts_.standing.mode == PagerMode::restore) return has_hint && has_few;
  if (in_hand <= reserve_runs() / 2 && !reads_over_cached()) return false;
  if (has_hint && has_few) return true;
  return !phase_.growing() && (in_hand > reserve_runs() || has_old_idle());
}

// What is expected first was not used while many others came: nor will be what was read ahead with it. It
// does not count as what is expected any more.
void ReactivePolicy::let_late_ones_go_by() {
  constexpr std::uint32_t much_later = 8 * Transfers::reads_in_flight;
  const std::uint32_t first = parts_.runs.lists().loaded.front();
  const std::uint32_t now = parts_.runs.arrivals();
  if (first != expected_) expected_since_ = now;
  expected_ = first;
  if (first == none || now - expected_since_ < much_later) return;
  ahead_.clear();  // what is still asked for was, too
  const std::uint32_t next = parts_.runs[first].next;
  if (next != none) expected_since_ = now - parts_.runs.age(next);
  expected_ = next;
  parts_.runs.let_go_by(first);
}

// Where the job streams there is always more of it.
bool ReactivePolicy::reads_over_cached() const {
  return is_streaming() && !parts_.runs.lists().cached.is_empty();
}

// It is on the tier, and of use as a whole.
bool ReactivePolicy::comes_as_a_whole(std::uint32_t n) const {
  if (n >= parts_.runs.top()) return false;
  const Run& r = parts_.runs[n];
  return r.state == RunState::stored && (!r.scattered || r.dense) && !r.queued &&
         !parts_.blocks.is_sparse(r.block);
}

// What DRAM keeps is there at once, and smaller until then.
bool ReactivePolicy::may_be_read(std::uint32_t n) const {
  return comes_as_a_whole(n) && !parts_.extents.is_kept_in_dram(parts_.runs[n]);
}

// So that only the one behind what was used last comes ahead of its touch, while the program is at that.
std::uint32_t ReactivePolicy::next_kept() {
  const std::uint32_t last = used_last_;
  used_last_ = none;
  if (last == none || !comes_as_a_whole(last + 1)) return none;
  const Run& next = parts_.runs[last + 1];
  const bool is_wanted = next.block == parts_.runs[last].block && parts_.extents.is_kept_in_dram(next);
  return is_wanted ? last + 1 : none;
}

// What followed last time, and has not been there since it was asked for.
std::uint32_t ReactivePolicy::next_follower() {
  return ahead_.pop([this](std::uint32_t n, std::uint32_t asked) {
    return may_be_read(n) && static_cast<std::int32_t>(parts_.runs[n].left - asked) <= 0;
  });
}

// The rest of the block that was touched or begun last.
std::uint32_t ReactivePolicy::next_of_block() {
  if (cursor_block_ == 0) return none;
  for (std::uint32_t n = cursor_run_; n < parts_.runs.size() && parts_.runs[n].block == cursor_block_; ++n) {
    if (!may_be_read(n)) continue;
    cursor_run_ = n + 1;
    return n;
  }
  cursor_block_ = 0;
  return none;
}

// The block evicted last: back to where it begins to be away, as it is wanted from its beginning.
bool ReactivePolicy::find_last_evicted_block() {
  const std::uint32_t last = parts_.runs.lists().stored.back();
  cursor_block_ = parts_.runs[last].block;
  cursor_run_ = last;
  if (cursor_block_ == 0) return false;
  const std::uint32_t first = parts_.blocks[cursor_block_].first_run();
  while (cursor_run_ > first && parts_.runs[cursor_run_ - 1].block == cursor_block_) --cursor_run_;
  return true;
}

std::uint32_t ReactivePolicy::next_read() {
  lookahead_.note_waste(parts_.accounts.counts.prefetch_wasted);
  std::uint32_t n = next_follower();
  if (n == none) n = next_of_block();
  if (n != none) return n;
  const RunList& stored = parts_.runs.lists().stored;
  if (stored.is_empty() || (phase_.growing() && parts_.standing.mode == PagerMode::paging)) return none;
  const std::uint32_t last = stored.back();
  if (parts_.runs[last].scattered || parts_.extents.is_kept_in_dram(parts_.runs[last])) return none;
  return find_last_evicted_block() ? next_of_block() : last;
}

bool ReactivePolicy::wants_agent() const {
  return wants_eviction() || (wants_read_ahead() && !phase_.growing());
}

}  // namespace terrace::liballoc
