// FlashNeuron (Bae et al., FAST'21), section 4.2, as far as the artifact of G10 and the paper's abstract
// tell: phase 1 offloads forward tensors to the SSD in the order in which they are made until the rest fits;
// if that takes longer than the forward pass and the machine has a codec, phase 2 compresses those of them
// that shrink most, largest saving first, until it does not. Prefetches begin with the backward pass, in the
// order of use, each as early as memory allows. No fallback.
#include <algorithm>

#include "daemon/planner/simulate/policies/gaps.h"
#include "daemon/planner/simulate/policies/policies.h"
#include "daemon/planner/simulate/program.h"

namespace terrace::planner {
namespace {

using wire::Action;

struct Offload {
  Gap gap;
  std::string codec;
  std::uint64_t stored = 0;
};

// The longest gap of each forward tensor into the backward pass, by first use.
std::vector<Offload> candidates(const wire::Trace& trace, std::uint32_t backward) {
  std::vector<std::uint32_t> made(trace.tensors.size(), 0xffffffffU);
  for (std::uint32_t op = static_cast<std::uint32_t>(trace.ops.size()); op-- > 0;) {
    for (const auto* list : {&trace.ops[op].inputs, &trace.ops[op].outputs}) {
      for (const std::uint32_t t : *list) made[t] = op;
    }
  }
  std::vector<Offload> all;
  for (const Gap& gap : gaps_of(trace)) {
    if (gap.wraps || trace.tensors[gap.tensor].persistent || gap.from >= backward || gap.to < backward)
      continue;
    all.push_back({gap, {}, trace.tensors[gap.tensor].bytes});
  }
  std::stable_sort(all.begin(), all.end(), [&](const Offload& a, const Offload& b) {
    return made[a.gap.tensor] < made[b.gap.tensor];
  });
  return all;
}

// Phase 1: the shortest beginning of the candidates that is enough for every operation.
Result<std::vector<Offload>> linear(const wire::Trace& trace, const Machine& machine, FarTiers* far,
                                    const std::vector<Offload>& all) {
  Residency residency(trace);
  std::vector<Offload> chosen;
  for (const Offload& o : all) {
    if (residency.most() <= machine.tiers[0].capacity_bytes) break;
    if (!far->has_room(far->farthest(), o.gap, o.stored)) {
      return refused<std::vector<Offload>>("tier '" + machine.tiers[far->farthest()].name +
                                           "' has no room for what FlashNeuron offloads");
    }
    far->take(far->farthest(), o.gap, o.stored);
    residency.remove(o.gap.from + 1, o.gap.to, o.stored);
    chosen.push_back(o);
  }
  if (residency.most() > machine.tiers[0].capacity_bytes) {
    return refused<std::vector<Offload>>("tier 0 is too small even if all forward tensors are offloaded: " +
                                         std::to_string(residency.most()) + " bytes remain at one operation");
  }
  return ok(std::move(chosen));
}

const CodecCost* best_codec(const wire::TraceTensor& tensor, const Machine& machine) {
  const CodecCost* best = nullptr;
  for (const CodecCost& c : machine.codecs) {
    const std::uint64_t least = best == nullptr ? tensor.bytes : stored_bytes(tensor, *best);
    if (stored_bytes(tensor, c) < least) best = &c;
  }
  return best;
}

// Phase 2.
void compress(const wire::Trace& trace, const Machine& machine, const FarTiers& far, double forward_us,
              std::vector<Offload>* chosen) {
  double transfers_us = 0;
  std::vector<std::pair<std::uint64_t, std::size_t>> savings;
  for (std::size_t i = 0; i < chosen->size(); ++i) {
    const Offload& o = (*chosen)[i];
    transfers_us += far.transfer_us(far.farthest(), o.stored, false);
    const CodecCost* codec = best_codec(trace.tensors[o.gap.tensor], machine);
    if (codec != nullptr)
      savings.emplace_back(o.stored - stored_bytes(trace.tensors[o.gap.tensor], *codec), i);
  }
  std::stable_sort(savings.begin(), savings.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const auto& [saved, i] : savings) {
    if (transfers_us <= forward_us) break;
    Offload& o = (*chosen)[i];
    const CodecCost* codec = best_codec(trace.tensors[o.gap.tensor], machine);
    transfers_us -= far.transfer_us(far.farthest(), o.stored, false);
    o.stored = stored_bytes(trace.tensors[o.gap.tensor], *codec);
    o.codec = codec->name;
    transfers_us += far.transfer_us(far.farthest(), o.stored, false);
  }
}

wire::Schedule schedule(const wire::Trace& trace, const Machine& machine, std::uint32_t backward,
                        std::uint32_t tier, std::vector<Offload> chosen) {
  Residency residency(trace);
  std::vector<wire::ScheduleEntry> entries;
  for (const Offload& o : chosen) {
    residency.remove(o.gap.from + 1, o.gap.to, trace.tensors[o.gap.tensor].bytes);
    entries.push_back({o.gap.from + 1, o.gap.tensor, Action::evict, tier, o.codec});
  }
  std::stable_sort(chosen.begin(), chosen.end(),
                   [](const Offload& a, const Offload& b) { return a.gap.to < b.gap.to; });
  std::uint32_t from = backward;  // prefetches keep their order
  for (const Offload& o : chosen) {
    const std::uint64_t bytes = trace.tensors[o.gap.tensor].bytes;
    const std::uint32_t begin = std::min(std::max(from, o.gap.from + 1), o.gap.to);
    from = residency.earliest(begin, o.gap.to, bytes, machine.tiers[0].capacity_bytes);
    residency.add(from, o.gap.to, bytes);
    entries.push_back({from, o.gap.tensor, Action::prefetch, tier, {}});
  }
  return sorted_schedule(trace, "flashneuron", std::move(entries));
}

}  // namespace

Result<wire::Schedule> plan_flashneuron(const wire::Trace& trace, const Machine& machine) {
  const std::optional<std::uint32_t> backward = backward_begin(trace);
  if (!backward) return refused<wire::Schedule>("the trace has no gradient, so no backward pass to plan for");
  FarTiers far(trace, machine);
  if (!far.any()) return refused<wire::Schedule>("the machine has no second tier");
  Result<std::vector<Offload>> chosen = linear(trace, machine, &far, candidates(trace, *backward));
  if (!chosen) return refused<wire::Schedule>(chosen.error);
  compress(trace, machine, far, ideal_starts_us(trace)[*backward], &*chosen);
  return ok(schedule(trace, machine, *backward, far.farthest(), std::move(*chosen)));
}

}  // namespace terrace::planner
