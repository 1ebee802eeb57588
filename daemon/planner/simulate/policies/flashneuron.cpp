// FlashNeuron (Bae et al., FAST'21), section 4.2: which forward tensors go to the SSD.
//
// Phase 1 takes them in the order in which they are made until the rest fits. If the queue that they form on
// the way out ends within the forward pass, that is the plan. Phase 2 makes it shorter: those taken that
// shrink are compressed, largest saving first, and if all of that is not enough, the latest taken that do not
// shrink stay, and ones that do, and were not taken, leave instead, smallest share first, as few as are
// needed. If no such selection ends in time, the one that ends first is taken. Prefetches begin with the
// backward pass, in the order of use, each as early as memory allows. No fallback.
//
// The paper gives both phases; how the second one picks was taken from the artifact's scheduler
// (SNU-ARC/flashneuron, saved_variable.cpp). What differs: it assumes that FP16 and sparse storage halve a
// tensor, here a codec of the machine makes of it what its sparsity says; it leaves out tensors of up to 1
// MB, and scales the free memory by 0.6, here every size and all of the memory count; it tries replacements
// one by one, here their number is bisected. Addresses do not count here (decision 011), so what fits here
// may fail there for want of a hole.
#include <algorithm>

#include "daemon/planner/simulate/gaps/gaps.h"
#include "daemon/planner/simulate/policies/policies.h"
#include "daemon/planner/simulate/program.h"

namespace terrace::planner {
namespace {

// A forward tensor's gap into the backward pass.
struct Candidate {
  Gap gap;
  const CodecCost* codec = nullptr;  // that makes least of it; none: it does not shrink
  std::uint64_t bytes = 0, coded_bytes = 0;
  bool taken = false, coded = false;

  std::uint64_t sent_bytes() const { return coded ? coded_bytes : bytes; }
};
using Candidates = std::vector<Candidate>;  // in the order in which their tensors are made

const CodecCost* best_codec(const wire::TraceTensor& tensor, const Machine& machine) {
  const CodecCost* best = nullptr;
  for (const CodecCost& c : machine.codecs) {
    if (c.one_bit) continue;  // no way back
    const std::uint64_t least = best == nullptr ? tensor.bytes : stored_bytes(tensor, *best);
    if (stored_bytes(tensor, c) < least) best = &c;
  }
  return best;
}

Candidates candidates(const wire::Trace& trace, const Machine& machine, std::uint32_t backward) {
  std::vector<std::uint32_t> made(trace.tensors.size(), 0xffffffffU);
  for (std::uint32_t op = static_cast<std::uint32_t>(trace.ops.size()); op-- > 0;) {
    for (const auto* list : {&trace.ops[op].inputs, &trace.ops[op].outputs}) {
      for (const std::uint32_t t : *list) made[t] = op;
    }
  }
  Candidates all;
  for (const Gap& gap : gaps_of(trace)) {
    const wire::TraceTensor& tensor = trace.tensors[gap.tensor];
    if (gap.wraps || tensor.persistent || gap.from >= backward || gap.to < backward) continue;
    Candidate c{gap, best_codec(tensor, machine), tensor.bytes, tensor.bytes};
    if (c.codec != nullptr) c.coded_bytes = stored_bytes(tensor, *c.codec);
    all.push_back(c);
  }
  std::stable_sort(all.begin(), all.end(), [&](const Candidate& a, const Candidate& b) {
    return made[a.gap.tensor] < made[b.gap.tensor];
  });
  return all;
}

class Selection {
 public:
  Selection(const wire::Trace& trace, const Machine& machine, std::uint32_t backward)
      : trace_(trace),
        machine_(machine),
        far_(trace, machine),
        starts_us_(ideal_starts_us(trace)),
        forward_us_(starts_us_[backward]),
        all_(candidates(trace, machine, backward)) {}

  // What is wrong with the machine for this step, empty if nothing.
  std::string choose() {
    if (!far_.any()) return "the machine has no second tier";
    std::string wrong = take_first_made();
    if (wrong.empty() && late()) compress_taken();
    if (wrong.empty() && late()) replace();
    return wrong;
  }

  // As wire::ScheduleEntry counts them.
  std::uint32_t number_of(const CodecCost& codec) const {
    return 1 + static_cast<std::uint32_t>(&codec - machine_.codecs.data());
  }

  std::vector<Offload> offloads() const {
    std::vector<Offload> chosen;
    for (const Candidate& c : all_) {
      if (c.taken) chosen.push_back({c.gap, far_.farthest(), c.coded ? number_of(*c.codec) : 0});
    }
    return chosen;
  }

 private:
  const wire::Trace& trace_;
  const Machine& machine_;
  FarTiers far_;
  std::vector<double> starts_us_;
  double forward_us_;
  Candidates all_;

  bool fits(const Residency& residency) const { return residency.most() <= machine_.tiers[0].capacity_bytes; }
  static void leave(const Candidate& c, Residency* residency) {
    residency->remove(c.gap.from + 1, c.gap.to, c.bytes);
  }

  // Phase 1.
  std::string take_first_made() {
    Residency residency(trace_);
    for (Candidate& c : all_) {
      if (fits(residency)) return {};
      if (!far_.has_room(far_.farthest(), c.gap, c.bytes)) {
        return "tier '" + machine_.tiers[far_.farthest()].name +
               "' has no room for what FlashNeuron offloads";
      }
      far_.take(far_.farthest(), c.gap, c.bytes);
      leave(c, &residency);
      c.taken = true;
    }
    if (fits(residency)) return {};
    return "tier 0 is too small, even with all forward tensors offloaded: " +
           std::to_string(residency.most()) + " bytes are left at one operation";
  }

  // When the last of them has left, one after the other, none before it may.
  double sent_us(const Candidates& chosen) const {
    std::vector<const Candidate*> queue;
    for (const Candidate& c : chosen) {
      if (c.taken) queue.push_back(&c);
    }
    std::stable_sort(queue.begin(), queue.end(),
                     [](const Candidate* a, const Candidate* b) { return a->gap.from < b->gap.from; });
    double end_us = 0;
    for (const Candidate* c : queue) {
      end_us = std::max(end_us, starts_us_[c->gap.from + 1]) +
               far_.transfer_us(far_.farthest(), c->sent_bytes(), false);
    }
    return end_us;
  }
  bool late() const { return sent_us(all_) > forward_us_; }

  void compress_taken() {
    std::vector<Candidate*> shrinking;
    for (Candidate& c : all_) {
      if (c.taken && c.codec != nullptr) shrinking.push_back(&c);
    }
    std::stable_sort(shrinking.begin(), shrinking.end(), [](const Candidate* a, const Candidate* b) {
      return a->bytes - a->coded_bytes > b->bytes - b->coded_bytes;
    });
    std::size_t few = 0, many = shrinking.size();  // `few` are too few; all of them if nothing is enough
    const auto compress = [&](std::size_t count) {
      for (std::size_t i = 0; i < shrinking.size(); ++i) shrinking[i]->coded = i < count;
    };
    while (few + 1 < many) {
      const std::size_t count = few + (many - few) / 2;
      compress(count);
      (late() ? few : many) = count;
    }
    compress(many);
  }

  // The latest taken that do not shrink stay, `staying` of them; whether what leaves instead is enough.
  bool reselect(std::size_t staying, Candidates* chosen) const {
    for (auto c = chosen->rbegin(); c != chosen->rend() && staying > 0; ++c) {
      if (!c->taken || c->codec != nullptr) continue;
      c->taken = false;
      --staying;
    }
    Residency residency(trace_);
    FarTiers far(trace_, machine_);
    for (const Candidate& c : *chosen) {
      if (!c.taken) continue;
      leave(c, &residency);
      far.take(far.farthest(), c.gap, c.sent_bytes());
    }
    for (Candidate* c : shrinking_not_taken(chosen)) {
      if (fits(residency)) break;
      if (!far.has_room(far.farthest(), c->gap, c->coded_bytes)) continue;
      far.take(far.farthest(), c->gap, c->coded_bytes);
      leave(*c, &residency);
      c->taken = c->coded = true;
    }
    return fits(residency);
  }

  static std::vector<Candidate*> shrinking_not_taken(Candidates* chosen) {
    std::vector<Candidate*> list;
    for (Candidate& c : *chosen) {
      if (!c.taken && c.codec != nullptr) list.push_back(&c);
    }
    const auto share = [](const Candidate* c) {
      return static_cast<double>(c->coded_bytes) / static_cast<double>(c->bytes);
    };
    std::stable_sort(list.begin(), list.end(),
                     [&](const Candidate* a, const Candidate* b) { return share(a) < share(b); });
    return list;
  }

  // As few replacements as end in time; else the selection seen that ends first.
  void replace() {
    const Candidates taken = all_;
    std::size_t few = 0;
    auto many = static_cast<std::size_t>(std::count_if(
        all_.begin(), all_.end(), [](const Candidate& c) { return c.taken && c.codec == nullptr; }));
    double best_us = sent_us(taken);
    while (few < many) {
      const std::size_t staying = few + (many - few + 1) / 2;
      Candidates tried = taken;
      const bool enough = reselect(staying, &tried);
      const double end_us = sent_us(tried);
      const bool in_time = enough && end_us <= forward_us_;
      if (!enough || in_time) {
        many = staying - 1;
      } else {
        few = staying;
      }
      if (!in_time && (!enough || end_us >= best_us)) continue;
      all_ = std::move(tried);
      best_us = end_us;
    }
  }
};

}  // namespace

Result<wire::Schedule> plan_flashneuron(const wire::Trace& trace, const Machine& machine) {
  const std::optional<std::uint32_t> backward = backward_begin(trace);
  if (!backward)
    return refused<wire::Schedule>("the trace has no gradients, and therefore no backward pass to plan for");
  Selection selection(trace, machine, *backward);
  if (std::string wrong = selection.choose(); !wrong.empty())
    return refused<wire::Schedule>(std::move(wrong));
  return ok(sorted_schedule(trace, "flashneuron", moves_of(trace, machine, *backward, selection.offloads())));
}

}  // namespace terrace::planner
