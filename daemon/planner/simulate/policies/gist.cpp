#include "daemon/planner/simulate/policies/gist.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "daemon/planner/simulate/policies/compressing.h"
#include "daemon/planner/simulate/program.h"

namespace terrace::planner {
namespace {

using wire::Action;
using wire::ScheduleEntry;

// What rests between the passes, and the codec for it, as wire::ScheduleEntry counts.
struct Stash {
  Gap gap;
  std::uint32_t codec = 0;
};

// Gaps between the passes of what a codec makes smaller; at most one of each tensor.
std::vector<Stash> stashes(const wire::Trace& trace, const Machine& machine, std::uint32_t inside) {
  std::vector<Stash> found;
  const std::optional<std::uint32_t> backward = backward_begin(trace);
  if (!backward) return found;
  const SparseCodecs codecs(trace, machine);
  const BitRests bits(trace, machine);
  for (const Gap& gap : gaps_of(trace)) {
    const bool between = !gap.wraps && gap.from < *backward && *backward <= gap.to;
    if (!between || trace.tensors[gap.tensor].persistent) continue;
    const std::uint32_t as_bits = bits.codec(gap);
    const std::uint32_t codec = as_bits != 0 ? as_bits : codecs.of(gap.tensor, inside);
    if (codec != 0) found.push_back({gap, codec});
  }
  return found;
}

}  // namespace

std::string nothing_to_encode(const wire::Trace& trace, const Machine& machine) {
  std::string why = nothing_to_compress(trace, machine);
  if (!why.empty() && !BitRests(trace, machine).any()) {
    if (machine.one_bit_codec() == 0) return why;
    return why +
           "; nor is there a tensor of floating-point values of which only the signs are read: \"dtype\" "
           "and \"sign_only\" say so (docs/formats/trace.md)";
  }
  const std::uint32_t inside = machine.tier_inside();
  if (inside == 0)
    return "the machine has no tier inside its first one to keep what is encoded, or no route to it; "
           "describe both, with \"inside\" in the tier (docs/formats/trace.md)";
  if (stashes(trace, machine, inside).empty())
    return "no sparse tensor of the trace, and none that is read by its signs, rests between its forward and "
           "its backward pass: \"kind\" says "
           "which tensors are gradients, \"sparsity\" which have zeros (docs/formats/trace.md)";
  return {};
}

EncodedStep::EncodedStep(const wire::Trace& trace, const Machine& machine)
    : trace_(trace), machine_(machine), inside_(machine.tier_inside()), stand_in_(trace) {
  choose();
  write_operations();
}

void EncodedStep::choose() {
  encoded_of_.assign(trace_.tensors.size(), 0);
  for (const Stash& stash : stashes(trace_, machine_, inside_)) {
    Encoded e{stash.gap, stash.codec, machine_.keeps_one_bit(stash.codec)};
    encoded_of_[e.gap.tensor] = static_cast<std::uint32_t>(encoded_.size() + 1);
    if (!e.bits) add_form(&e, false);
    add_form(&e, true);
    encoded_.push_back(e);
  }
}

// What is packed is packed no further.
void EncodedStep::add_form(Encoded* e, bool packed) {
  wire::TraceTensor form = trace_.tensors[e->gap.tensor];
  (packed ? e->packed : e->after) = static_cast<std::uint32_t>(stand_in_.tensors.size());
  if (packed) {
    form.bytes = stored_bytes(form, machine_.codecs[e->codec - 1]);
    form.sparsity.reset();
    if (e->bits) form.dtype.clear();
  }
  stand_in_.tensors.push_back(form);
  encoded_of_.push_back(encoded_of_[e->gap.tensor]);
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
      name[e->gap.tensor] = e->bits ? e->packed : e->after;
      if (e->bits) continue;
      e->decode = static_cast<std::uint32_t>(stand_in_.ops.size());
      add(coding(*e, false), op);
      op_.push_back(no_op);
    }
    wire::TraceOp own = trace_.ops[op];
    for (auto* list : {&own.inputs, &own.outputs, &own.sign_only})
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

// Of an encoded form that the plan sends elsewhere, that tier, and its own fetches stand in the plan. What
// the plan brings back to be packed comes before that.
std::vector<EncodedStep::Placed> EncodedStep::own_entries(const std::vector<std::uint32_t>& tier_of) const {
  std::vector<Placed> own;
  for (std::size_t i = 0; i < encoded_.size(); ++i) {
    const Encoded& e = encoded_[i];
    own.push_back(
        {e.encode + (e.bits ? 1 : 0), {e.gap.from + 1, e.gap.tensor, Action::out, tier_of[i], e.codec}});
    if (tier_of[i] == inside_ && !e.bits)
      own.push_back({e.decode, {e.gap.to, e.gap.tensor, Action::in, inside_, {}}});
  }
  return own;
}

// By encoded tensor: where the plan sends its encoded form, or the tier inside.
std::vector<std::uint32_t> EncodedStep::tiers_of_forms(const SwapPlan& plan) const {
  std::vector<std::uint32_t> tiers(encoded_.size(), inside_);
  for (const ScheduleEntry& e : plan.entries) {
    const std::uint32_t number = encoded_of_[e.object];
    if (number == 0 || encoded_[number - 1].bits) continue;
    if (e.object == encoded_[number - 1].packed && e.action == Action::out) tiers[number - 1] = e.tier;
  }
  return tiers;
}

// Said of one of the three forms, now of the tensor; nothing where that is said already. What the plan makes
// again of the first form while the tensor rests encoded is decoded instead, and encoded anew where the plan
// drops it.
std::vector<ScheduleEntry> EncodedStep::of_the_tensor(ScheduleEntry e, const Encoded& encoded,
                                                      std::uint32_t tier) const {
  if (encoded.bits) return of_what_rests_as_bits(e, encoded);
  const bool is_form = e.object == encoded.packed;
  const bool rests = e.object == encoded.gap.tensor && e.at > encoded.encode;
  if (is_form && e.action == Action::out) return {};
  e.object = encoded.gap.tensor;
  if (!rests || (e.action != Action::redo && e.action != Action::drop)) return {e};
  e.codec = e.action == Action::drop ? encoded.codec : 0;
  e.action = e.action == Action::drop ? Action::out : Action::in;
  e.tier = tier;
  return {e};
}

// The bits give way to values that are made again, and come anew from those.
std::vector<ScheduleEntry> EncodedStep::of_what_rests_as_bits(ScheduleEntry e, const Encoded& encoded) const {
  if (e.object == encoded.packed) return {};
  const bool rests = e.at > encoded.encode;
  if (rests && e.action == Action::drop) {
    e.action = Action::out;
    e.tier = inside_;
    e.codec = encoded.codec;
  }
  if (!rests || e.action != Action::redo) return {e};
  ScheduleEntry bits = e;
  bits.action = Action::drop;
  return {bits, e};
}

SwapPlan EncodedStep::translated(const SwapPlan& plan) const {
  const std::vector<std::uint32_t> tier_of = tiers_of_forms(plan);
  std::vector<Placed> all;
  for (const ScheduleEntry& planned : plan.entries) {
    const std::uint32_t number = encoded_of_[planned.object];
    std::vector<ScheduleEntry> said{planned};
    if (number != 0) said = of_the_tensor(planned, encoded_[number - 1], tier_of[number - 1]);
    for (ScheduleEntry& e : said) {
      e.at = original_[planned.at];
      e.by = wire::no_deadline;
      all.push_back({planned.at, e});
    }
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
