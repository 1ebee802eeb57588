// What counts as exposed. A transfer that something waited for is, and so is every one before it in an
// unbroken row on its route and direction: had it been shorter, the last one would have ended earlier.
//
//     route in   aaaa....bbbbbbccccddd      a ended before the pause: coding it gains nothing
//     compute    1111122222233-----------   b, c and d are exposed: operation 3 waited for d
//
// Ways in are waited for as late or missing data, ways out for want of room. A tensor is coded in all its
// moves or in none, as CSWAP decides by tensor. Tried are all tensors for which coding pays, then the exposed
// ones of them, each also with later begins of what comes back coded: as much later as the way is shorter, so
// that it arrives when it would have, and its memory in tier 0 serves others until then.
#include "daemon/planner/simulate/policies/compressing.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "daemon/planner/one_bit.h"
#include "daemon/planner/simulate/program.h"
#include "daemon/planner/variants.h"

namespace terrace::planner {
namespace {

using wire::Action;
using wire::ScheduleEntry;

constexpr double unbroken_us = 1e-3;  // less between two transfers is no pause

struct Wait {
  double from_us = 0, until_us = 0;
};

// Waits of the step for data or for room, in order.
std::vector<Wait> waits_of(const SimulationReport& report, bool for_data) {
  std::vector<Wait> waits;
  const auto add = [&](const OpTiming& timing) {
    const Stalls& s = timing.stalls;
    const double us = for_data ? s.late_prefetch_us + s.fetch_us : s.room_us;
    if (us > 0) waits.push_back({timing.ready_us, timing.present_us});
  };
  for (const OpTiming& op : report.ops) add(op);
  for (const ExtraWork& work : report.extra) add(work.timing);
  std::sort(waits.begin(), waits.end(), [](const Wait& a, const Wait& b) { return a.from_us < b.from_us; });
  return waits;
}

// The computation waits once at a time: waits do not overlap each other.
bool overlaps(const std::vector<Wait>& waits, const Transfer& t) {
  const auto after = std::upper_bound(waits.begin(), waits.end(), t.start_us,
                                      [](double us, const Wait& w) { return us < w.until_us; });
  return after != waits.end() && after->from_us < t.end_us;
}

// By tensor: whether any of its transfers is exposed.
std::vector<bool> exposed_tensors(const SimulationReport& report, std::size_t tensors, std::size_t tiers) {
  std::vector<bool> exposed(tensors, false);
  std::vector<const Transfer*> behind(tiers * 2, nullptr);  // by tier and direction: the exposed one
  const std::vector<Wait> for_room = waits_of(report, false), for_data = waits_of(report, true);
  for (auto t = report.transfers.rbegin(); t != report.transfers.rend(); ++t) {
    if (t->from != 0) continue;  // passes by tier 0
    const Transfer*& next = behind[t->tier * 2 + (t->in ? 1 : 0)];
    const bool in_row = next != nullptr && next->start_us <= t->end_us + unbroken_us;
    next = in_row || overlaps(t->in ? for_data : for_room, *t) ? &*t : nullptr;
    if (next != nullptr) exposed[t->tensor] = true;
  }
  return exposed;
}

// By entry: the next one of its object, perhaps of the next period.
std::vector<std::size_t> next_of_object(const std::vector<ScheduleEntry>& entries, std::size_t objects) {
  std::vector<std::size_t> next(entries.size()), seen(objects, 0);
  for (std::size_t i = 2 * entries.size(); i-- > 0;) {
    const std::size_t e = i % entries.size();
    next[e] = seen[entries[e].object];
    seen[entries[e].object] = e;
  }
  return next;
}

class Compressor {
 public:
  Compressor(const wire::Trace& trace, const Machine& machine)
      : trace_(trace), machine_(machine), codecs_(trace, machine) {}

  // With codecs on the evictions for which `which` says so.
  template <class Which>
  SwapPlan coded(SwapPlan plan, Which which) const {
    for (ScheduleEntry& e : plan.entries)
      if (e.action == Action::out && e.codec == 0 && which(e)) e.codec = codecs_.of(e.object, e.tier);
    return plan;
  }

  SwapPlan where_it_pays(SwapPlan plan) {
    const auto report = simulate_repeated(trace_, machine_, plan, plan.victims, true);
    if (report && report->stalls.total_us() <= 0) return plan;
    best_ = plan;
    best_us_ = report ? report->total_us : std::numeric_limits<double>::infinity();
    const auto pays = [&](const ScheduleEntry& e) { return codecs_.pays(e.object, e.tier); };
    try_both(coded(plan, pays));
    if (report) {
      const std::vector<bool> exposed =
          exposed_tensors(*report, trace_.tensors.size(), machine_.tiers.size());
      try_both(coded(plan, [&](const ScheduleEntry& e) { return exposed[e.object] && pays(e); }));
    }
    return std::move(best_);
  }

 private:
  const wire::Trace& trace_;
  const Machine& machine_;
  SparseCodecs codecs_;
  SwapPlan best_;
  double best_us_ = 0;

  void try_both(const SwapPlan& plan) {
    if (!try_one(plan)) return;
    try_one(begun_later(plan));
  }

  // Whether it says anything new.
  bool try_one(const SwapPlan& plan) {
    const bool same = std::equal(plan.entries.begin(), plan.entries.end(), best_.entries.begin(),
                                 best_.entries.end(), [](const ScheduleEntry& a, const ScheduleEntry& b) {
                                   return a.at == b.at && a.object == b.object && a.codec == b.codec;
                                 });
    if (same) return false;
    const auto report = simulate_repeated(trace_, machine_, plan, plan.victims);
    if (!report || report->total_us >= best_us_) return true;
    best_ = plan;
    best_us_ = report->total_us;
    return true;
  }

  // No entry passes another one of its object, and none the tensor's next use.
  SwapPlan begun_later(SwapPlan plan) const {
    const std::vector<double> starts_us = ideal_starts_us(with_variants(trace_, plan.variants));
    const auto ops = static_cast<std::uint32_t>(trace_.ops.size());
    const std::vector<std::size_t> next = next_of_object(plan.entries, trace_.tensors.size());
    std::vector<std::uint32_t> begins;
    for (const ScheduleEntry& e : plan.entries) begins.push_back(e.at);
    for (std::size_t i = 0; i < plan.entries.size(); ++i) {
      const ScheduleEntry& out = plan.entries[i];
      const ScheduleEntry& in = plan.entries[next[i]];
      if (out.action != Action::out || out.codec == 0 || in.action != Action::in) continue;
      const std::size_t last = next[next[i]];
      std::uint32_t limit = std::min(in.by, ops);
      if (last > next[i]) limit = std::min(limit, plan.entries[last].at);
      const double saved_us = codecs_.transfer_us(in.object, in.tier, 0, true) -
                              codecs_.transfer_us(in.object, in.tier, out.codec, true);
      const auto after = std::upper_bound(starts_us.begin(), starts_us.end(), starts_us[in.at] + saved_us);
      const auto later = static_cast<std::uint32_t>(after - starts_us.begin() - 1);
      begins[next[i]] = std::clamp(later, in.at, std::max(in.at, limit));
    }
    for (std::size_t i = 0; i < begins.size(); ++i) plan.entries[i].at = begins[i];
    std::stable_sort(plan.entries.begin(), plan.entries.end(),
                     [](const ScheduleEntry& a, const ScheduleEntry& b) { return a.at < b.at; });
    return plan;
  }
};

}  // namespace

SparseCodecs::SparseCodecs(const wire::Trace& trace, const Machine& machine)
    : trace_(trace), machine_(machine), far_(trace, machine) {
  for (std::uint32_t t = 0; t < trace.tensors.size() && !any_; ++t)
    any_ = std::any_of(machine.codecs.begin(), machine.codecs.end(),
                       [&](const CodecCost& codec) { return shrinks(t, codec); });
}

bool SparseCodecs::shrinks(std::uint32_t tensor, const CodecCost& codec) const {
  const wire::TraceTensor& t = trace_.tensors[tensor];
  return codec.drops_zeros && t.sparsity.value_or(0) > 0 && stored_bytes(t, codec) < t.bytes;
}

std::uint32_t SparseCodecs::of(std::uint32_t tensor, std::uint32_t tier) const {
  std::uint32_t best = 0;
  for (std::uint32_t c = 1; c <= machine_.codecs.size(); ++c) {
    if (!shrinks(tensor, machine_.codecs[c - 1])) continue;
    if (best == 0 || swap_us(tensor, tier, c) < swap_us(tensor, tier, best)) best = c;
  }
  return best;
}

bool SparseCodecs::pays(std::uint32_t tensor, std::uint32_t tier) const {
  const std::uint32_t codec = of(tensor, tier);
  return codec != 0 && swap_us(tensor, tier, codec) < swap_us(tensor, tier, 0);
}

double SparseCodecs::transfer_us(std::uint32_t tensor, std::uint32_t tier, std::uint32_t codec,
                                 bool in) const {
  const wire::TraceTensor& t = trace_.tensors[tensor];
  if (codec == 0) return far_.transfer_us(tier, t.bytes, in);
  const CodecCost& c = machine_.codecs[codec - 1];
  const double link_us = far_.transfer_us(tier, stored_bytes(t, c), in);
  if (!c.overlaps) return link_us;
  const double rate = in ? c.decompress_bytes_per_second : c.compress_bytes_per_second;
  return std::max(link_us, far_.transfer_us(tier, 0, in) + static_cast<double>(t.bytes) / rate * 1e6);
}

double SparseCodecs::swap_us(std::uint32_t tensor, std::uint32_t tier, std::uint32_t codec) const {
  const double moves_us = transfer_us(tensor, tier, codec, false) + transfer_us(tensor, tier, codec, true);
  if (codec == 0 || machine_.codecs[codec - 1].overlaps) return moves_us;
  const CodecCost& c = machine_.codecs[codec - 1];
  const auto bytes = static_cast<double>(trace_.tensors[tensor].bytes);
  return moves_us + bytes / c.compress_bytes_per_second * 1e6 + bytes / c.decompress_bytes_per_second * 1e6;
}

BitRests::BitRests(const wire::Trace& trace, const Machine& machine)
    : trace_(trace), codec_(machine.one_bit_codec()) {
  if (codec_ == 0) return;
  until_ = values_needed_until(trace);
  for (const Gap& gap : gaps_of(trace)) any_ |= codec(gap) != 0;
}

std::uint32_t BitRests::codec(const Gap& gap) const {
  if (codec_ == 0 || gap.wraps || gap.from + 1 < until_[gap.tensor]) return 0;
  return one_bit_bytes(trace_.tensors[gap.tensor]) == 0 ? 0 : codec_;
}

std::string nothing_to_compress(const wire::Trace& trace, const Machine& machine) {
  const bool drops = std::any_of(machine.codecs.begin(), machine.codecs.end(),
                                 [](const CodecCost& codec) { return codec.drops_zeros; });
  if (!drops)
    return "the machine has no codec that drops zeros: describe one under \"codecs\" (docs/formats/trace.md)";
  if (SparseCodecs(trace, machine).any()) return {};
  return "no tensor of the trace has zeros enough for the machine's codecs: the \"sparsity\" of a tensor "
         "says "
         "how many it has (docs/formats/trace.md)";
}

SwapPlan compressed(const wire::Trace& trace, const Machine& machine, SwapPlan plan, Coding coding) {
  if (coding == Coding::as_planned) return plan;
  Compressor compressor(trace, machine);
  if (coding == Coding::where_it_pays) return compressor.where_it_pays(std::move(plan));
  return compressor.coded(std::move(plan), [](const ScheduleEntry&) { return true; });
}

}  // namespace terrace::planner
