#include "daemon/planner/simulate/policies/gist.h"

#include <algorithm>
#include <optional>

#include "daemon/planner/simulate/policies/compressing.h"
#include "daemon/planner/simulate/program.h"

namespace terrace::planner {
namespace {

using wire::Action;
using wire::ScheduleEntry;

// Gaps between the passes of what a codec makes smaller; at most one of each tensor.
std::vector<Gap> stashes(const wire::Trace& trace, const Machine& machine, std::uint32_t inside) {
  std::vector<Gap> found;
  const std::optional<std::uint32_t> backward = backward_begin(trace);
  if (!backward) return found;
  const SparseCodecs codecs(trace, machine);
  for (const Gap& gap : gaps_of(trace)) {
    const bool between = !gap.wraps && gap.from < *backward && *backward <= gap.to;
    if (between && !trace.tensors[gap.tensor].persistent && codecs.of(gap.tensor, inside) != 0)
      found.push_back(gap);
  }
  return found;
}

}  // namespace

std::string nothing_to_encode(const wire::Trace& trace, const Machine& machine) {
  if (std::string why = nothing_to_compress(trace, machine); !why.empty()) return why;
  const std::uint32_t inside = machine.tier_inside();
  if (inside == 0)
    return "the machine has no tier inside its first one to keep what is encoded, or no route to it; "
           "describe both, with \"inside\" in the tier (docs/formats/trace.md)";
  if (stashes(trace, machine, inside).empty())
    return "no sparse tensor of the trace rests between its forward and its backward pass: \"kind\" says "
           "which tensors are gradients, \"sparsity\" which have zeros (docs/formats/trace.md)";
  return {};
}

EncodedStep::EncodedStep(const wire::Trace& trace, const Machine& machine)
    : trace_(trace), machine_(machine), inside_(machine.tier_inside()), stand_in_(trace) {
  choose();
  write_operations();
}

void EncodedStep::choose() {
  const SparseCodecs codecs(trace_, machine_);
  encoded_of_.assign(trace_.tensors.size(), 0);
  for (const Gap& gap : stashes(trace_, machine_, inside_)) {
    Encoded e{gap, codecs.of(gap.tensor, inside_)};
    wire::TraceTensor form = trace_.tensors[gap.tensor];
    e.after = static_cast<std::uint32_t>(stand_in_.tensors.size());
    stand_in_.tensors.push_back(form);
    e.packed = e.after + 1;
    form.bytes = stored_bytes(form, machine_.codecs[e.codec - 1]);
    form.sparsity.reset();
    stand_in_.tensors.push_back(form);
    encoded_.push_back(e);
    const auto number = static_cast<std::uint32_t>(encoded_.size());
    encoded_of_[gap.tensor] = number;
    encoded_of_.insert(encoded_of_.end(), {number, number});
  }
}

// Each operation after those that decode for it and before those that encode behind it.
void EncodedStep::write_operations() {
  const auto ops = static_cast<std::uint32_t>(trace_.ops.size());
  std::vector<std::vector<Encoded*>> behind(ops), before(ops);
  for (Encoded& e : encoded_) {
    behind[e.gap.from].push_back(&e);
    before[e.gap.to].push_back(&e);
  }
  std::vector<std::uint32_t> name(trace_.tensors.size());  // of a tensor, from here on
  for (std::uint32_t t = 0; t < name.size(); ++t) name[t] = t;
  stand_in_.ops.clear();
  for (std::uint32_t op = 0; op < ops; ++op) {
    for (Encoded* e : before[op]) {
      e->decode = static_cast<std::uint32_t>(stand_in_.ops.size());
      add(coding(*e, false), op);
      op_.push_back(no_op);
      name[e->gap.tensor] = e->after;
    }
    wire::TraceOp own = trace_.ops[op];
    for (auto* list : {&own.inputs, &own.outputs})
      for (std::uint32_t& t : *list) t = name[t];
    add(std::move(own), op);
    op_.push_back(op);
    for (Encoded* e : behind[op]) {
      e->encode = static_cast<std::uint32_t>(stand_in_.ops.size());
      add(coding(*e, true), op + 1);
      op_.push_back(no_op);
    }
  }
  original_.push_back(ops);
}

void EncodedStep::add(wire::TraceOp op, std::uint32_t original) {
  stand_in_.ops.push_back(std::move(op));
  original_.push_back(original);
}

wire::TraceOp EncodedStep::coding(const Encoded& e, bool encode) const {
  const CodecCost& codec = machine_.codecs[e.codec - 1];
  const auto bytes = static_cast<double>(trace_.tensors[e.gap.tensor].bytes);
  wire::TraceOp op;
  op.name = encode ? "encode" : "decode";
  if (!codec.overlaps)
    op.time_us = bytes / (encode ? codec.compress_bytes_per_second : codec.decompress_bytes_per_second) * 1e6;
  op.inputs = {encode ? e.gap.tensor : e.packed};
  op.outputs = {encode ? e.packed : e.after};
  op.recomputable = false;
  return op;
}

// Of an encoded form that the plan sends elsewhere, that tier, and its own fetches stand in the plan.
std::vector<EncodedStep::Placed> EncodedStep::own_entries(const std::vector<std::uint32_t>& tier_of) const {
  std::vector<Placed> own;
  for (std::size_t i = 0; i < encoded_.size(); ++i) {
    const Encoded& e = encoded_[i];
    own.push_back({e.encode, {e.gap.from + 1, e.gap.tensor, Action::out, tier_of[i], e.codec}});
    if (tier_of[i] == inside_) own.push_back({e.decode, {e.gap.to, e.gap.tensor, Action::in, inside_, {}}});
  }
  return own;
}

// By encoded tensor: where the plan sends its encoded form, or the tier inside.
std::vector<std::uint32_t> EncodedStep::tiers_of_forms(const SwapPlan& plan) const {
  std::vector<std::uint32_t> tiers(encoded_.size(), inside_);
  for (const ScheduleEntry& e : plan.entries) {
    const std::uint32_t number = encoded_of_[e.object];
    if (number != 0 && e.object == encoded_[number - 1].packed && e.action == Action::out)
      tiers[number - 1] = e.tier;
  }
  return tiers;
}

// Said of one of the three forms, now of the tensor; nothing where that is said already. What the plan makes
// again of the first form while the tensor rests encoded is decoded instead, and encoded anew where the plan
// drops it.
std::optional<ScheduleEntry> EncodedStep::of_the_tensor(ScheduleEntry e, const Encoded& encoded,
                                                        std::uint32_t tier) const {
  const bool is_form = e.object == encoded.packed;
  const bool rests = e.object == encoded.gap.tensor && e.at > encoded.encode;
  if (is_form && e.action == Action::out) return std::nullopt;
  e.object = encoded.gap.tensor;
  if (!rests || (e.action != Action::redo && e.action != Action::drop)) return e;
  e.codec = e.action == Action::drop ? encoded.codec : 0;
  e.action = e.action == Action::drop ? Action::out : Action::in;
  e.tier = tier;
  return e;
}

SwapPlan EncodedStep::translated(const SwapPlan& plan) const {
  const std::vector<std::uint32_t> tier_of = tiers_of_forms(plan);
  std::vector<Placed> all;
  for (const ScheduleEntry& planned : plan.entries) {
    const std::uint32_t number = encoded_of_[planned.object];
    std::optional<ScheduleEntry> e = planned;
    if (number != 0) e = of_the_tensor(planned, encoded_[number - 1], tier_of[number - 1]);
    if (!e) continue;
    e->at = original_[planned.at];
    e->by = wire::no_deadline;
    all.push_back({planned.at, *e});
  }
  const std::vector<Placed> own = own_entries(tier_of);
  all.insert(all.begin(), own.begin(), own.end());
  std::stable_sort(all.begin(), all.end(), [](const Placed& a, const Placed& b) { return a.at < b.at; });
  SwapPlan made = plan;
  made.entries.clear();
  for (const Placed& placed : all) made.entries.push_back(placed.entry);
  made.trace = trace_.name;
  made.period = 0;
  made.objects.clear();
  for (wire::VariantChoice& choice : made.variants) choice.op = op_[choice.op];
  return made;
}

}  // namespace terrace::planner
