// Sentinel (Ren et al., HPCA'21): short-lived tensors in a pool of fast memory that nothing else uses; pages
// of tensors alike in life and hotness; and migration intervals, whose length is tried.
//
// The paper's text was not at hand. Reconstructed from its abstract, its artifact's README (layer markers,
// migration intervals, co-allocation of tensors that are alike) and notes on the paper:
// * A layer is an operation here. Who lives no longer than one layer is short-lived: born in the pool, which
// is
//   as large as the short-lived need at once, and never moved. Here the pool takes half of the fast memory at
//   most; what finds it full comes to be in the slow memory.
// * At the begin of interval j everything leaves that neither j nor j + 1 names, and what j + 1 names begins
// to
//   come, hottest first: by accesses per byte. What is born lies in the fast memory where it has room there.
// * Small tensors share pages of 4 KiB with those alike: the same intervals, as many accesses. A page moves
// as
//   one, and takes its whole room. That is Sentinel's remedy for pages that are hot for one tensor's sake.
// * The interval's length: the paper has a model (what comes fits beside the pool, and comes in an interval's
//   time) and then tries steps; here powers of four are simulated until two in a row are no better, then
//   twice and half of the best. The model's answer is among those, or beside one.
// * Test and trial: where an interval begins and what it needs is still on its way, wait for it or use it
// where
//   it is. Both are tried for all intervals at once, and then for each interval that waits or may wait alone,
//   the first 32.
#include <algorithm>
#include <map>
#include <tuple>

#include "daemon/planner/memories/policies.h"

namespace terrace::planner::memories {
namespace {

constexpr std::uint64_t page_bytes = 4096;
constexpr std::uint32_t most_interval_trials = 32;
constexpr int worse_lengths_in_a_row = 2;  // end the search

struct Parts {
  bool pool = true;    // of the short-lived
  bool pages = true;   // of those alike
  bool trials = true;  // waiting for what is late
};

// Moves as one.
struct Unit {
  std::vector<std::uint32_t> tensors;
  std::vector<Span> wanted;
  std::uint64_t bytes = 0;
  std::size_t accesses = 0;
};

class Sentinel {
 public:
  Sentinel(const Step& step, const Parts& parts)
      : step_(step), parts_(parts), ops_(static_cast<std::uint32_t>(step.ops.size())) {}

  Planned plan() {
    int no_better = 0;
    for (std::uint32_t length = 1; length < std::max(ops_, 2U) && no_better < worse_lengths_in_a_row;
         length *= 4)
      no_better = is_better(length) ? 0 : no_better + 1;
    const std::uint32_t coarse = best_length_;
    is_better(coarse * 2);
    if (coarse > 1) is_better(coarse / 2);
    if (parts_.trials) try_intervals();
    return std::move(best_);
  }

 private:
  const Step& step_;
  Parts parts_;
  std::uint32_t ops_;
  Planned best_{{}, std::numeric_limits<double>::infinity(), 0};
  std::uint32_t best_length_ = 1;
  std::vector<bool> best_waits_;

  std::uint32_t intervals(std::uint32_t length) const { return (ops_ + length - 1) / length; }

  bool is_short_lived(const Tensor& t) const { return parts_.pool && !t.persistent && t.last - t.first <= 1; }

  // True: a plan with intervals of this length is better than all before.
  bool is_better(std::uint32_t length) {
    const Residence residence = residence_with(length);
    const std::vector<bool> none(intervals(length), false), all(intervals(length), true);
    bool better = tried(length, residence, none);
    if (parts_.trials) better |= tried(length, residence, all);
    return better;
  }

  bool tried(std::uint32_t length, const Residence& residence, const std::vector<bool>& waits) {
    Plan plan = with_waits(residence, length, waits);
    const double total_us = simulate(step_, plan).total_us;
    if (total_us >= best_.total_us) return false;
    best_ = {std::move(plan), total_us, 0};
    best_length_ = length;
    best_waits_ = waits;
    return true;
  }

  void try_intervals() {
    const Residence residence = residence_with(best_length_);
    const std::uint32_t most = std::min(intervals(best_length_), most_interval_trials);
    for (std::uint32_t j = 0; j < most; ++j) {
      std::vector<bool> waits = best_waits_;
      waits[j] = !waits[j];
      tried(best_length_, residence, waits);
    }
  }

  // Intervals that name the tensor, and one before each of them; a birth begins where it begins.
  std::vector<Span> wanted(const Tensor& t, std::uint32_t length) const {
    std::vector<Span> spans;
    const Span lives = life(t);
    const auto want = [&](std::uint32_t begin, std::uint32_t end) {
      const Span s{std::max(begin, lives.begin), std::min(end, lives.end)};
      if (!spans.empty() && s.begin <= spans.back().end) {
        spans.back().end = std::max(spans.back().end, s.end);
      } else {
        spans.push_back(s);
      }
    };
    for (const std::uint32_t u : t.uses) {
      const std::uint32_t j = step_.uses[u].op / length;
      want((j > 0 ? j - 1 : 0) * length, std::min((j + 1) * length, ops_));
    }
    const bool early = t.persistent && !spans.empty() && step_.uses[t.uses.front()].op < length;
    if (early) want((intervals(length) - 1) * length, ops_);  // for the next step's first interval
    return spans;
  }

  std::vector<Unit> units(std::uint32_t length) const {
    std::vector<Unit> all;
    std::map<std::tuple<std::vector<std::pair<std::uint32_t, std::uint32_t>>, std::size_t>, std::size_t>
        alike;
    for (std::uint32_t t = 0; t < step_.tensors.size(); ++t) {
      const Tensor& tensor = step_.tensors[t];
      if (tensor.uses.empty() || is_short_lived(tensor)) continue;
      Unit unit{{t}, wanted(tensor, length), tensor.bytes, tensor.uses.size()};
      std::vector<std::pair<std::uint32_t, std::uint32_t>> key;
      for (const Span& s : unit.wanted) key.emplace_back(s.begin, s.end);
      const bool shares = parts_.pages && tensor.bytes < page_bytes;
      const auto [place, is_new] =
          shares ? alike.try_emplace({key, tensor.uses.size()}, all.size()) : std::pair(alike.end(), true);
      if (is_new) {
        all.push_back(std::move(unit));
      } else {
        Unit& page = all[place->second];
        page.tensors.push_back(t);
        page.bytes += tensor.bytes;
        page.accesses += tensor.uses.size();
      }
    }
    for (Unit& u : all) u.bytes = (u.bytes + page_bytes - 1) / page_bytes * page_bytes;
    return all;
  }

  // What is wanted and has room, in the order in which it is wanted: births, then by hotness.
  Residence residence_with(std::uint32_t length) const {
    Residence residence(step_.tensors.size());
    Room room(step_);
    take_pool(&room, &residence);
    struct Wish {
      std::uint32_t interval;
      bool moves;
      double coldness;
      std::uint32_t unit;
      Span span;
    };
    std::vector<Wish> wishes;
    const std::vector<Unit> all = units(length);
    for (std::uint32_t u = 0; u < all.size(); ++u) {
      const double coldness = static_cast<double>(all[u].bytes) / static_cast<double>(all[u].accesses);
      const Tensor& t = step_.tensors[all[u].tensors.front()];
      for (const Span& s : all[u].wanted) {
        const bool born = !t.persistent && s.begin == t.first;
        // What is wanted ahead gives way to what is born until it is used.
        wishes.push_back({s.begin / length + (born ? 0 : 1), !born, coldness, u, s});
      }
    }
    std::stable_sort(wishes.begin(), wishes.end(), [](const Wish& a, const Wish& b) {
      return std::tie(a.interval, a.moves, a.coldness) < std::tie(b.interval, b.moves, b.coldness);
    });
    for (const Wish& w : wishes) admit(all[w.unit], w.span, length, &room, &residence);
    for (std::vector<Span>& spans : residence)
      std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
    return residence;
  }

  void take_pool(Room* room, Residence* residence) const {
    std::vector<std::uint64_t> needed(ops_ + 1, 0);
    for (std::uint32_t t = 0; t < step_.tensors.size(); ++t) {
      const Tensor& tensor = step_.tensors[t];
      if (tensor.uses.empty() || !is_short_lived(tensor)) continue;
      needed[tensor.first] += tensor.bytes;
      needed[tensor.last] += tensor.last > tensor.first ? tensor.bytes : 0;
      (*residence)[t] = {life(tensor)};
    }
    const std::uint64_t pool = *std::max_element(needed.begin(), needed.end());
    room->take({0, ops_}, std::min(pool, step_.fast_bytes / 2));
  }

  // All of the span, or what is left of it from a later interval on.
  void admit(const Unit& unit, const Span& span, std::uint32_t length, Room* room,
             Residence* residence) const {
    for (std::uint32_t begin = span.begin; begin < span.end; begin = (begin / length + 1) * length) {
      const Span part{begin, span.end};
      if (!room->has(part, unit.bytes)) continue;
      room->take(part, unit.bytes);
      for (const std::uint32_t t : unit.tensors) {
        const Span lives = life(step_.tensors[t]);
        const Span stay{std::max(part.begin, lives.begin), std::min(part.end, lives.end)};
        if (stay.begin < stay.end) (*residence)[t].push_back(stay);
      }
      return;
    }
  }

  // Before interval j, and before anything else there, for what came in during j - 1.
  Plan with_waits(const Residence& residence, std::uint32_t length, const std::vector<bool>& waits) const {
    Plan plan = plan_of(step_, residence);
    std::vector<Entry> entries;
    for (const Entry& e : plan.entries) {
      if (e.move != Move::in) continue;
      const std::uint32_t j = e.position / length + 1;
      if (j < waits.size() && waits[j]) entries.push_back({j * length, e.tensor, Move::wait});
    }
    entries.insert(entries.end(), plan.entries.begin(), plan.entries.end());
    std::stable_sort(entries.begin(), entries.end(),
                     [](const Entry& a, const Entry& b) { return a.position < b.position; });
    plan.entries = std::move(entries);
    return plan;
  }
};

}  // namespace

Planned plan_sentinel(const Step& step, const Control& /*control*/) { return Sentinel(step, {}).plan(); }

Planned plan_sentinel_interval(const Step& step, const Control& /*control*/) {
  return Sentinel(step, {.pool = false, .pages = false, .trials = false}).plan();
}

}  // namespace terrace::planner::memories
