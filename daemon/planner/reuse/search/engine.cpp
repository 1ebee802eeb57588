#include "daemon/planner/reuse/search/engine.h"

#include <algorithm>
#include <numeric>

namespace terrace::planner::search {
namespace {

constexpr std::uint64_t most_per_question = 1024;  // nodes between two calls of `stop`
constexpr std::uint64_t items_per_question = std::uint64_t{1} << 18;
constexpr std::size_t most_learning = 2048;  // buffers; reasons on the trail grow with their cube
constexpr std::size_t placed_row = 0;
constexpr std::size_t why_row = 1;
constexpr std::int64_t nowhere = std::numeric_limits<std::int64_t>::max();

SectionRange joined(SectionRange range, const Cell& cell) {
  return {std::min(range.first, cell.first), std::max(range.last, cell.last)};
}

}  // namespace

Budget::Budget(const SearchLimits& limits, std::size_t items)
    : limits_(limits),
      nodes_per_question_(std::clamp<std::uint64_t>(items_per_question / (items + 1), 1, most_per_question)) {
}

bool Budget::spend() {
  if (over() || round_ == 0) return false;
  --round_;
  if (++used_ % nodes_per_question_ == 0 && limits_.stop && limits_.stop()) stopped_ = true;
  return !stopped_;
}

Engine::Engine(const Problem& problem, std::int64_t capacity, std::span<const std::uint32_t> order,
               FailedStates& failed, Activity& activity, Budget& budget)
    : capacity_(capacity),
      bounds_(problem, order, order.size() <= most_learning),
      check_(problem.sections, capacity),
      failed_(failed),
      activity_(activity),
      budget_(budget),
      neighbours_(order.size(), bounds_.words() * 64),
      sets_(2, bounds_.words() * 64),
      offset_(order.size()),
      placed_(order.size()),
      spans_(static_cast<std::size_t>(problem.sections)),
      lists_(order.size() + 2) {
  for (Rank a = 0; a < order.size(); ++a) {
    for (auto s = static_cast<std::size_t>(bounds_[a].first); s < static_cast<std::size_t>(bounds_[a].last);
         ++s)
      ++spans_[s];
    if (bounds_.words() == 0) continue;
    for (Rank b = 0; b < order.size(); ++b)
      if (a != b && overlap(bounds_[a], bounds_[b])) BitRows::set(neighbours_.row(a), b);
  }
}

Verdict Engine::run() {
  List all(bounds_.size());
  std::iota(all.begin(), all.end(), 0U);
  return all.empty() ? Verdict::found : component(std::move(all), 0);
}

std::vector<std::int64_t> Engine::offsets() const {
  std::vector<std::int64_t> offsets(offset_.size());
  for (Rank r = 0; r < offset_.size(); ++r) offsets[bounds_[r].item] = offset_[r];
  return offsets;
}

bool Engine::before(Rank a, Rank b) const {
  return bounds_[a].low != bounds_[b].low ? bounds_[a].low < bounds_[b].low : a < b;
}

// `after` holds in order what did not rise.
void Engine::merge_risen(List& after) {
  const auto by_low = [&](Rank a, Rank b) { return before(a, b); };
  std::sort(risen_.begin(), risen_.end(), by_low);
  merged_.resize(after.size() + risen_.size());
  std::merge(after.begin(), after.end(), risen_.begin(), risen_.end(), merged_.begin(), by_low);
  std::swap(after, merged_);
}

void Engine::unite(const Bounds::Word* row) {
  Bounds::Word* const why = sets_.row(why_row);
  for (std::size_t w = 0; w < bounds_.words(); ++w) why[w] |= row[w];
}

// A problem of its own: bounds are the floors again, but for twins.
Verdict Engine::component(List left, std::size_t depth) {
  const std::size_t mark = bounds_.mark();
  const StateHash outer = bounds_.hash();
  bounds_.set_hash({});
  std::sort(left.begin(), left.end());
  SectionRange range{bounds_[left[0]].first, bounds_[left[0]].last};
  for (const Rank r : left) {
    bounds_.restart(r);
    bounds_.add_to_hash(r);
    range = joined(range, bounds_[r]);
    const Rank twin = bounds_[r].twin;
    if (twin == no_rank || placed_[twin] != 0) continue;
    // Twins have one floor, hence one reason.
    bounds_.raise(r, align_up(bounds_[twin].low + bounds_[r].bytes, bounds_[r].alignment),
                  bounds_.floor_why(r));
  }
  std::sort(left.begin(), left.end(), [&](Rank a, Rank b) { return before(a, b); });
  Verdict verdict = Verdict::infeasible;
  if (check_.fits(bounds_, left, range, activity_, sets_.row(why_row)) && !known_failure(left)) {
    const StateHash state = bounds_.hash();
    lists_[depth] = std::move(left);
    verdict = descend(depth);
    if (verdict == Verdict::infeasible) failed_.insert(state);
  }
  if (verdict != Verdict::found) bounds_.undo(mark);
  bounds_.set_hash(outer);
  return verdict;
}

bool Engine::known_failure(const List& left) {
  if (!failed_.contains(bounds_.hash())) return false;
  std::fill_n(sets_.row(why_row), bounds_.words(), Bounds::Word{0});
  for (const Rank r : left) unite(bounds_.floor_why(r));
  return true;
}

// The choices for the lowest buffer of lists_[depth], until one succeeds or none is left.
Verdict Engine::descend(std::size_t depth) {
  List& left = lists_[depth];
  const std::size_t mark = bounds_.mark();
  for (;;) {
    const Rank b = left[0];
    const bool can_place = supported(b);
    Verdict verdict = budget_.spend() ? Verdict::infeasible : Verdict::stopped;
    if (verdict == Verdict::infeasible && can_place) verdict = try_place(b, depth);
    if (verdict == Verdict::found) return verdict;
    // Without learning (no words) b always counts as part of the reason.
    const bool guilty = !can_place || bounds_.words() == 0 || BitRows::test(sets_.row(why_row), b);
    if (verdict == Verdict::stopped || !guilty || !raise(left, can_place)) {
      bounds_.undo(mark);
      return verdict;
    }
  }
}

bool Engine::supported(Rank b) const {
  const Cell& cell = bounds_[b];
  return cell.low == cell.floor && (cell.twin == no_rank || placed_[cell.twin] != 0);
}

Verdict Engine::try_place(Rank b, std::size_t depth) {
  const std::size_t mark = bounds_.mark();
  const std::size_t placed = stack_.size();
  const StateHash hash = bounds_.hash();
  const Verdict verdict = place(b, depth);
  if (verdict == Verdict::found) return verdict;
  bounds_.undo(mark);
  unplace_to(placed);
  bounds_.set_hash(hash);
  return verdict;
}

Verdict Engine::place(Rank b, std::size_t depth) {
  bounds_.remove_from_hash(b);
  placed_[b] = 1;
  stack_.push_back(b);
  offset_[b] = bounds_[b].low;
  if (bounds_.words() > 0) BitRows::set(sets_.row(placed_row), b);
  const bool cut = uncover(b);
  List& after = lists_[depth + 1];
  SectionRange touched{bounds_[b].first, bounds_[b].last};
  if (!stack_on(b, lists_[depth], after, touched)) return Verdict::infeasible;
  if (after.empty()) return Verdict::found;
  if (!check_.fits(bounds_, after, touched, activity_, sets_.row(why_row)) || known_failure(after))
    return Verdict::infeasible;
  const StateHash state = bounds_.hash();
  const Verdict verdict = cut ? components(after, depth + 1) : descend(depth + 1);
  if (verdict == Verdict::infeasible) failed_.insert(state);
  return verdict;
}

// Raises what is left above b; false if one no longer fits under the capacity.
bool Engine::stack_on(Rank b, const List& before, List& after, SectionRange& touched) {
  const std::int64_t offset = offset_[b];
  const std::int64_t top = offset + bounds_[b].bytes;
  after.clear();
  risen_.clear();
  for (const Rank r : std::span(before).subspan(1)) {
    const std::int64_t low = bounds_[r].low;
    if (bounds_[r].floor < top && overlap(bounds_[r], bounds_[b])) bounds_.stack(r, b, offset);
    if (bounds_[r].low == low) {
      after.push_back(r);
      continue;
    }
    risen_.push_back(r);
    touched = joined(touched, bounds_[r]);
    if (bounds_[r].low <= capacity_ - bounds_[r].bytes) continue;
    std::copy_n(bounds_.low_why(r), bounds_.words(), sets_.row(why_row));
    return false;
  }
  merge_risen(after);
  return true;
}

// b no longer spans its borders; true if one of them is spanned by nothing now.
bool Engine::uncover(Rank b) {
  bool cut = false;
  for (auto s = static_cast<std::size_t>(bounds_[b].first); s < static_cast<std::size_t>(bounds_[b].last);
       ++s)
    cut = --spans_[s] == 0 || cut;
  return cut;
}

void Engine::unplace_to(std::size_t mark) {
  for (; stack_.size() > mark; stack_.pop_back()) {
    const Rank b = stack_.back();
    placed_[b] = 0;
    if (bounds_.words() > 0) BitRows::reset(sets_.row(placed_row), b);
    for (auto s = static_cast<std::size_t>(bounds_[b].first); s < static_cast<std::size_t>(bounds_[b].last);
         ++s)
      ++spans_[s];
  }
}

std::vector<Engine::List> Engine::split(List left) const {
  std::sort(left.begin(), left.end(), [&](Rank a, Rank b) { return bounds_[a].first < bounds_[b].first; });
  std::vector<List> parts;
  std::int32_t last = -1;
  for (const Rank r : left) {
    if (bounds_[r].first > last) parts.emplace_back();
    parts.back().push_back(r);
    last = std::max(last, bounds_[r].last);
  }
  return parts;
}

// The small ones first: if one is hopeless, the less is lost.
Verdict Engine::components(const List& left, std::size_t depth) {
  std::vector<List> parts = split(left);
  if (parts.size() == 1) return descend(depth);
  std::stable_sort(parts.begin(), parts.end(),
                   [](const List& a, const List& b) { return a.size() < b.size(); });
  for (List& part : parts)
    if (const Verdict verdict = component(std::move(part), depth); verdict != Verdict::found) return verdict;
  return Verdict::found;
}

// The lowest place on a buffer that is not placed yet; `nowhere` if there is none.
std::int64_t Engine::next_support(const List& left) const {
  const Cell& cell = bounds_[left[0]];
  std::int64_t low = nowhere;
  for (std::size_t i = 1; i < left.size() && bounds_[left[i]].low < low; ++i)
    if (const Cell& base = bounds_[left[i]]; overlap(base, cell)) low = std::min(low, base.low + base.bytes);
  return low == nowhere ? nowhere : align_up(low, cell.alignment);
}

// The reason that the first of `left` lies at `low` or higher. It does not rest on what is placed, as that
// lies where it lies; it is not at its present bound, by the failure of placing it there; it does not rest
// lower on what is not placed, by the bounds of those that alone are not high enough.
void Engine::explain_raise(const List& left, std::int64_t low, bool was_placed) {
  const Rank b = left[0];
  Bounds::Word* const why = sets_.row(why_row);
  if (!was_placed) std::fill_n(why, bounds_.words(), Bounds::Word{0});
  unite(bounds_.low_why(b));
  for (std::size_t w = 0; w < bounds_.words(); ++w)
    why[w] |= neighbours_.row(b)[w] & sets_.row(placed_row)[w];
  for (const Rank r : left)
    if (r != b && bounds_[r].bytes < low && overlap(bounds_[r], bounds_[b])) unite(bounds_.low_why(r));
  if (bounds_.words() > 0) BitRows::reset(why, b);
}

// False, with the reason, if the first of `left` has no place that is higher.
bool Engine::raise(List& left, bool was_placed) {
  const Rank b = left[0];
  const Cell& cell = bounds_[b];
  const std::int64_t highest = capacity_ - cell.bytes;
  const std::int64_t low = next_support(left);
  explain_raise(left, std::min(low, highest + 1), was_placed);
  if (low > highest) return false;
  bounds_.raise(b, low, sets_.row(why_row));
  std::size_t k = 1;
  for (; k < left.size() && before(left[k], b); ++k) left[k - 1] = left[k];
  left[k - 1] = b;
  return check_.fits(bounds_, left, {cell.first, cell.last}, activity_, sets_.row(why_row));
}

}  // namespace terrace::planner::search
