// The best persistent schedule of a chain, by dynamic programming.
//
// After Beaumont et al., "Optimal checkpointing for heterogeneous chains" (Inria RR-9302), whose rotor solves
// C(s, t, m): the least time for the layers s to t in m slots of memory. Persistent means that an output that
// a sweep leaves behind stays until the backward operations that read it have run. rotor keeps of a layer
// either its output or all that its backward operation needs. Here these are the same storages, so what is
// left behind serves both, and the recurrences differ: they say which outputs are there.
//
//     forward(i)      a[i] is there, nothing after it. To do: everything after i, forward and back.
//     back(i, k)      a[i], a[k] and g[k+1] are there. To do: the backward operations of k, ..., i+1.
//     absent(i, k)    the same without a[k], which was dropped to make room
//
//     forward(i) = min over k > i   sweep(i, k) + forward(k) without a[i]'s room + back(i, k)
//     forward(L) = loss
//     back(i, k) = min of           absent(i, k)
//                  over i < c < k   sweep(i, c) + back(c, k) without a[i]'s room + back(i, c)
//                  for k = i + 1    the backward operation of k
//     absent(i, k) = min over c     sweep(i, c) + absent(c, k) without a[i]'s room + back(i, c)
//                  for k = i + 1    sweep(i, k) + back(i, k)
//
// sweep(i, c) runs the layers i+1 to c and leaves a[c] behind; of what lies between, two outputs are there at
// once. Memory counts in slots of the budget; whatever ran before and stays is taken off by the caller.
// Time O(L^3 slots), memory O(L^2 slots).
#include <algorithm>
#include <limits>

#include "daemon/planner/recompute/static/chain.h"
#include "daemon/planner/recompute/static/policies.h"

namespace terrace::planner::recompute {
namespace {

using Slots = std::uint32_t;
constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max() / 4;
constexpr std::uint16_t at_once = 0xffff, drop_first = 0xfffe;  // beside the number of a layer
constexpr std::uint64_t most_cells = 12'000'000;                // of one table

struct Best {
  std::int64_t cost_ns = never;
  std::uint16_t choice = at_once;

  void take(std::int64_t cost, std::uint16_t how) {
    if (cost >= cost_ns) return;
    cost_ns = cost;
    choice = how;
  }
};

// A value for each pair of layers i < k and each number of slots.
class Table {
 public:
  Table(std::uint32_t layers, Slots slots)
      : slots_(slots), cells_(std::size_t{layers} * (layers + 1) / 2 * (slots + 1)) {}
  Best& at(std::uint32_t i, std::uint32_t k, Slots m) {
    return cells_[(std::size_t{k} * (k - 1) / 2 + i) * (slots_ + 1) + m];
  }

 private:
  Slots slots_;
  std::vector<Best> cells_;
};

class Programme {
 public:
  Programme(const Step& step, const Chain& chain, std::uint64_t budget_bytes, Slots slots);
  bool solve();
  Schedule schedule();

 private:
  void size_layers();
  void fill_back(std::uint32_t i, std::uint32_t k, Slots m);
  void fill_absent(std::uint32_t i, std::uint32_t k, Slots m);
  void fill_forward(std::uint32_t i, Slots m);

  std::int64_t cost_of_sweep(std::uint32_t i, std::uint32_t c) const { return until_[c] - until_[i]; }
  Slots room_of_sweep(std::uint32_t i, std::uint32_t c) const { return sweep_[i * (layers_ + 1) + c]; }
  static std::int64_t value(Table& table, std::uint32_t i, std::uint32_t k, Slots m, Slots taken) {
    return taken > m ? never : table.at(i, k, m - taken).cost_ns;
  }

  void emit_forward(std::uint32_t i, Slots m);
  void emit_back(std::uint32_t i, std::uint32_t k, Slots m);
  void emit_absent(std::uint32_t i, std::uint32_t k, Slots m);
  void emit_sweep(std::uint32_t i, std::uint32_t c);
  void compute(std::uint32_t operation) { schedule_.push_back({Move::Kind::compute, operation}); }
  void free(std::uint32_t storage) { schedule_.push_back({Move::Kind::free, storage}); }

  const Step& step_;
  const Chain& chain_;
  std::uint32_t layers_;
  std::uint64_t slot_bytes_;
  Slots slots_;
  std::vector<Slots> output_, gradient_;  // per layer
  std::vector<std::int64_t> until_;       // cost of the layers up to this one
  std::vector<Slots> sweep_;              // beside what is there when it begins
  Table back_, absent_;
  std::vector<std::vector<Best>> forward_;
  Schedule schedule_;
};

Programme::Programme(const Step& step, const Chain& chain, std::uint64_t budget_bytes, Slots slots)
    : step_(step),
      chain_(chain),
      layers_(chain.count()),
      slot_bytes_(std::max<std::uint64_t>(1, (budget_bytes + slots - 1) / slots)),
      slots_(static_cast<Slots>(budget_bytes / slot_bytes_)),
      back_(layers_, slots_),
      absent_(layers_, slots_),
      forward_(layers_ + 1, std::vector<Best>(slots_ + 1)) {
  size_layers();
}

void Programme::size_layers() {
  const auto slots_of = [&](std::uint32_t storage) {
    if (storage == nothing) return Slots{0};
    const std::uint64_t slots = (step_.storages[storage].bytes + slot_bytes_ - 1) / slot_bytes_;
    return static_cast<Slots>(std::min<std::uint64_t>(slots, slots_ + std::uint64_t{1}));
  };
  until_.assign(layers_ + 1, 0);
  for (std::uint32_t l = 0; l < chain_.layers.size(); ++l) {
    output_.push_back(slots_of(chain_.layers[l].output));
    gradient_.push_back(slots_of(chain_.layers[l].gradient));
    if (l > 0 && l <= layers_) until_[l] = until_[l - 1] + step_.operations[chain_.layers[l].forward].cost_ns;
  }
  sweep_.assign(std::size_t{layers_ + 1} * (layers_ + 1), 0);
  for (std::uint32_t i = 0; i < layers_; ++i) {
    Slots most = 0;
    for (std::uint32_t c = i + 1; c <= layers_; ++c) {
      most = std::max(most, output_[c] + (c - 1 > i ? output_[c - 1] : 0));
      sweep_[i * (layers_ + 1) + c] = most;
    }
  }
}

void Programme::fill_back(std::uint32_t i, std::uint32_t k, Slots m) {
  Best& best = back_.at(i, k, m);
  const Slots there = output_[i] + output_[k] + gradient_[k + 1];
  if (k == i + 1) {
    if (there + gradient_[k] <= m) best.take(step_.operations[chain_.layers[k].backward].cost_ns, at_once);
    return;
  }
  for (std::uint32_t c = i + 1; c < k; ++c) {
    if (there + room_of_sweep(i, c) > m) break;  // a longer sweep needs no less
    const std::int64_t first = value(back_, c, k, m, output_[i]);
    best.take(cost_of_sweep(i, c) + first + back_.at(i, c, m).cost_ns, static_cast<std::uint16_t>(c));
  }
  best.take(absent_.at(i, k, m).cost_ns, drop_first);
}

void Programme::fill_absent(std::uint32_t i, std::uint32_t k, Slots m) {
  Best& best = absent_.at(i, k, m);
  const Slots there = output_[i] + gradient_[k + 1];
  if (k == i + 1) {
    if (there + output_[k] <= m) best.take(cost_of_sweep(i, k) + back_.at(i, k, m).cost_ns, at_once);
    return;
  }
  for (std::uint32_t c = i + 1; c < k; ++c) {
    if (there + room_of_sweep(i, c) > m) break;
    const std::int64_t first = value(absent_, c, k, m, output_[i]);
    best.take(cost_of_sweep(i, c) + first + back_.at(i, c, m).cost_ns, static_cast<std::uint16_t>(c));
  }
}

void Programme::fill_forward(std::uint32_t i, Slots m) {
  Best& best = forward_[i][m];
  if (i == layers_) {
    if (output_[i] + gradient_[i + 1] <= m)
      best.take(step_.operations[chain_.layers[i + 1].forward].cost_ns, at_once);
    return;
  }
  for (std::uint32_t k = i + 1; k <= layers_; ++k) {
    if (output_[i] + room_of_sweep(i, k) > m) break;
    const std::int64_t rest = output_[i] > m ? never : forward_[k][m - output_[i]].cost_ns;
    best.take(cost_of_sweep(i, k) + rest + back_.at(i, k, m).cost_ns, static_cast<std::uint16_t>(k));
  }
}

// Shorter stretches first: each value needs those of stretches inside it, and `back` needs `absent`.
bool Programme::solve() {
  for (std::uint32_t length = 1; length <= layers_; ++length) {
    for (std::uint32_t i = 0; i + length <= layers_; ++i) {
      const std::uint32_t k = i + length;
      for (Slots m = 0; m <= slots_; ++m) {
        if (length > 1) fill_absent(i, k, m);
        fill_back(i, k, m);
        if (length == 1) fill_absent(i, k, m);
      }
    }
  }
  for (std::uint32_t i = layers_ + 1; i-- > 0;)
    for (Slots m = 0; m <= slots_; ++m) fill_forward(i, m);
  return forward_[0][slots_].cost_ns < never;
}

void Programme::emit_sweep(std::uint32_t i, std::uint32_t c) {
  for (std::uint32_t l = i + 1; l <= c; ++l) {
    compute(chain_.layers[l].forward);
    if (l - 1 > i) free(chain_.layers[l - 1].output);
  }
}

void Programme::emit_absent(std::uint32_t i, std::uint32_t k, Slots m) {
  const std::uint16_t choice = absent_.at(i, k, m).choice;
  const std::uint32_t c = choice == at_once ? k : choice;
  emit_sweep(i, c);
  if (c < k) emit_absent(c, k, m - output_[i]);
  emit_back(i, c, m);
}

// Leaves a[i] and g[i + 1].
void Programme::emit_back(std::uint32_t i, std::uint32_t k, Slots m) {
  const std::uint16_t choice = back_.at(i, k, m).choice;
  if (choice == at_once) {
    compute(chain_.layers[k].backward);
    free(chain_.layers[k].output);
    free(chain_.layers[k + 1].gradient);
  } else if (choice == drop_first) {
    free(chain_.layers[k].output);
    emit_absent(i, k, m);
  } else {
    emit_sweep(i, choice);
    emit_back(choice, k, m - output_[i]);
    emit_back(i, choice, m);
  }
}

void Programme::emit_forward(std::uint32_t i, Slots m) {
  if (i == layers_) return compute(chain_.layers[i + 1].forward);
  const std::uint32_t k = forward_[i][m].choice;
  emit_sweep(i, k);
  emit_forward(k, m - output_[i]);
  emit_back(i, k, m);
}

Schedule Programme::schedule() {
  emit_forward(0, slots_);
  return std::move(schedule_);
}

}  // namespace

Result<Schedule> chain_programme(const Step& step, std::uint64_t budget_bytes, std::uint32_t slots) {
  const auto chain = chain_of(step);
  if (!chain) return refused<Schedule>(chain.error);
  if (budget_bytes < step.constant_bytes)
    return refused<Schedule>("the constants do not fit into the budget");
  const std::uint64_t pairs = std::uint64_t{chain->count()} * (chain->count() + 1) / 2;
  const auto fewer = static_cast<Slots>(std::min<std::uint64_t>(slots, most_cells / pairs));
  Programme programme(step, *chain, budget_bytes - step.constant_bytes, fewer);
  if (!programme.solve()) return refused<Schedule>("no persistent schedule fits into the budget");
  return ok(programme.schedule());
}

}  // namespace terrace::planner::recompute
