#include "daemon/planner/simulate/gaps/lineage.h"

#include <algorithm>

#include "daemon/planner/running_statistics.h"

namespace terrace::planner {
namespace {

constexpr std::size_t longest_chain = 32;  // tensors; longer ones cost more than any transfer

bool same_gap(const Gap& a, const Gap& b) { return a.tensor == b.tensor && a.from == b.from; }

}  // namespace

Lineage::Lineage(const wire::Trace& trace)
    : trace_(trace),
      writers_(trace.tensors.size()),
      last_use_(trace.tensors.size(), 0),
      dropped_(trace.tensors.size()),
      moved_(trace.tensors.size()),
      held_(trace.tensors.size()) {
  for (std::uint32_t op = 0; op < trace.ops.size(); ++op) {
    for (const std::uint32_t t : trace.ops[op].inputs) last_use_[t] = op;
    for (const std::uint32_t t : trace.ops[op].outputs) {
      last_use_[t] = op;
      if (writers_[t].empty() || writers_[t].back() != op) writers_[t].push_back(op);
    }
  }
}

void Lineage::keep(const Gap& gap) {
  std::erase_if(dropped_[gap.tensor], [&](const Gap& g) { return same_gap(g, gap); });
  std::erase_if(moved_[gap.tensor], [&](const Moved& m) { return same_gap(m.gap, gap); });
}

void Lineage::keep_all() {
  for (auto& gaps : dropped_) gaps.clear();
  for (auto& gaps : moved_) gaps.clear();
  for (auto& held : held_) held.clear();
}

// The last operation before `at` that wrote it.
std::optional<std::uint32_t> Lineage::maker(std::uint32_t tensor, std::uint32_t at) const {
  const std::vector<std::uint32_t>& writers = writers_[tensor];
  const auto next = std::lower_bound(writers.begin(), writers.end(), at);
  if (next == writers.begin()) return std::nullopt;
  return *(next - 1);
}

bool Lineage::repeatable(std::uint32_t op, std::uint32_t at, std::uint32_t tensor) const {
  const wire::TraceOp& o = trace_.ops[op];
  return o.recomputable && std::all_of(o.inputs.begin(), o.inputs.end(), [&](std::uint32_t t) {
           if (t == tensor || leaves_alone(trace_, o, t)) return true;
           const std::vector<std::uint32_t>& writers = writers_[t];
           const auto changed = std::lower_bound(writers.begin(), writers.end(), op);  // in place, or since
           return changed == writers.end() || *changed >= at;
         });
}

// The operation that wrote it whole, and the updates in place since; the last one first. Empty if they cannot
// all run again.
std::vector<std::uint32_t> Lineage::makers(std::uint32_t tensor, std::uint32_t at) const {
  std::vector<std::uint32_t> ops;
  for (std::optional<std::uint32_t> op = maker(tensor, at); op && ops.size() < longest_chain;
       op = maker(tensor, *op)) {
    if (!repeatable(*op, at, tensor)) return {};
    ops.push_back(*op);
    const std::vector<std::uint32_t>& inputs = trace_.ops[*op].inputs;
    if (std::find(inputs.begin(), inputs.end(), tensor) == inputs.end()) return ops;
  }
  return {};
}

// Right before the operation after its last use it still lies there.
bool Lineage::dead(std::uint32_t tensor, std::uint32_t at) const {
  return !trace_.tensors[tensor].persistent && last_use_[tensor] + 1 < at;
}

bool Lineage::is_held(std::uint32_t tensor, std::uint32_t at) const {
  const std::vector<Held>& held = held_[tensor];
  return std::any_of(held.begin(), held.end(), [at](const Held& h) { return h.from < at && at <= h.to; });
}

const Gap* Lineage::dropped_over(std::uint32_t tensor, std::uint32_t at) const {
  for (const Gap& gap : dropped_[tensor]) {
    if (gap.from < at && at <= gap.to) return &gap;
  }
  return nullptr;
}

double Lineage::fetch_us(std::uint32_t tensor, std::uint32_t at) const {
  for (const Moved& m : moved_[tensor]) {
    if (m.gap.wraps ? at < m.gap.to || at > m.gap.from : m.gap.from < at && at < m.gap.to) return m.in_us;
  }
  return 0;
}

bool Lineage::gather(std::uint32_t tensor, std::uint32_t at, std::vector<Need>* needs,
                     std::vector<std::uint32_t>* held) const {
  const std::size_t first = needs->size();
  const auto add = [&](std::uint32_t t) {
    const auto known = [t](const Need& n) { return n.tensor == t; };
    if (std::any_of(needs->begin(), needs->end(), known)) return true;
    std::vector<std::uint32_t> ops = makers(t, at);
    if (ops.empty()) return false;
    needs->push_back({ops.front(), t, std::move(ops)});
    return needs->size() - first <= longest_chain;
  };
  if (is_held(tensor, at)) {
    if (held != nullptr) held->push_back(tensor);
    return true;
  }
  if (!add(tensor)) return false;
  for (std::size_t i = first; i < needs->size(); ++i) {
    const Need need = (*needs)[i];
    for (const std::uint32_t op : need.makers) {
      for (const std::uint32_t t : trace_.ops[op].inputs) {
        if (t == need.tensor || leaves_alone(trace_, trace_.ops[op], t)) continue;
        if (is_held(t, at)) {
          if (held != nullptr) held->push_back(t);
          continue;
        }
        if ((dead(t, at) || dropped_over(t, at) != nullptr) && !add(t)) return false;
      }
    }
  }
  return true;
}

std::optional<double> Lineage::price_us(const Gap& gap) const {
  std::vector<Need> needs;
  if (gap.wraps || trace_.tensors[gap.tensor].persistent || !gather(gap.tensor, gap.to, &needs))
    return std::nullopt;
  std::sort(needs.begin(), needs.end());
  double price_us = 0;
  for (std::size_t i = 0; i < needs.size(); ++i) {
    const Gap* dropped = dropped_over(needs[i].tensor, gap.to);
    // What is made again for this operation anyway costs nothing more.
    if (needs[i].tensor != gap.tensor && dropped != nullptr && dropped->to == gap.to) continue;
    if (i > 0 && needs[i].maker == needs[i - 1].maker) continue;
    for (const std::uint32_t op : needs[i].makers) {
      price_us += trace_.ops[op].time_us;
      for (const std::uint32_t t : trace_.ops[op].inputs)
        if (t != needs[i].tensor && !leaves_alone(trace_, trace_.ops[op], t)) price_us += fetch_us(t, gap.to);
    }
  }
  return price_us;
}

std::vector<std::uint32_t> Lineage::rests_on(const Gap& gap) const {
  std::vector<Need> needs;
  if (!gather(gap.tensor, gap.to, &needs)) return {};
  std::vector<std::uint32_t> there;
  for (const Need& need : needs) {
    for (const std::uint32_t op : need.makers) {
      for (const std::uint32_t t : trace_.ops[op].inputs) {
        if (leaves_alone(trace_, trace_.ops[op], t)) continue;
        if (!dead(t, gap.to) && dropped_over(t, gap.to) == nullptr) there.push_back(t);
      }
    }
  }
  std::sort(there.begin(), there.end());
  there.erase(std::unique(there.begin(), there.end()), there.end());
  return there;
}

std::vector<Lineage::Again> Lineage::again_at(std::uint32_t at, const std::vector<Gap>& ending,
                                              std::vector<std::uint32_t>* held) const {
  std::vector<Need> needs;
  for (const Gap& gap : ending) gather(gap.tensor, at, &needs, held);
  std::sort(needs.begin(), needs.end());
  std::vector<Again> again;
  for (const Need& need : needs) {
    const Gap* dropped = dropped_over(need.tensor, at);
    const bool goes_on = dropped != nullptr && dropped->to > at;
    again.push_back({need.tensor, dead(need.tensor, at) ? Then::dead : goes_on ? Then::dropped : Then::used});
  }
  return again;
}

}  // namespace terrace::planner
