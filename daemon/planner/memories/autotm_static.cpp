// AutoTM without moves (Hildebrand et al., ASPLOS'20, section 4; formulation after its public code,
// darchr/AutoTM@c6d4f2c, src/optimizer/ilp/formulation.jl, as notes on it have it; the paper's text was not
// at hand): each tensor lies in one memory for all of its life.
//
//     x[t] in {0, 1}   tensor t lies in the fast memory
//     e[i] >= 0        what operation i takes beyond its time
//
//     minimise   sum of e[i]
//          e[i] + sum of extra[i,t] x[t] >= sum of extra[i,t] - hidden[i]     for each operation i
//          sum of bytes[t] x[t] over what lives at i <= the fast memory       for instants i (instants.h)
//
// AutoTM has a binary for each combination of a kernel's arguments' places, since it knows a kernel's times
// as a table. Here they are a convex function of the places (step.h), for which one row says the same and
// relaxes no worse: binaries that are interpolated between reach every point of that row. Tensors below a
// millionth of the fast memory are left out of the programme, as if they took no room and were fast, and
// placed afterwards. AutoTM rounds to 4 KiB and solves again with lower limits where its allocator fragments;
// there are no addresses here. Its solver was given a gap of 1% and an hour; ours the same gap and a number
// of nodes.
#include <algorithm>
#include <cmath>

#include "daemon/planner/memories/branching.h"
#include "daemon/planner/memories/instants.h"
#include "daemon/planner/memories/places.h"
#include "daemon/planner/memories/policies.h"

namespace terrace::planner::memories {
namespace {

constexpr std::size_t most_instants = 200;
constexpr double least_share = 1e-6;  // of the fast memory, of a tensor that is in the programme
constexpr std::uint32_t no_column = ~std::uint32_t{0};

class Static {
 public:
  explicit Static(const Step& step)
      : step_(step),
        unit_us_(std::max(1e-9, step.compute_us / 1000)),
        columns_(step.tensors.size(), no_column) {}

  Planned plan(const BranchOptions& options) {
    add_tensors();
    for (const Operation& op : step_.ops) add(op);
    for (const std::uint32_t instant : instants_of(step_, most_instants)) add_room(instant);
    const Branched branched = branch(
        std::move(programme_), whole_, [this](const std::vector<double>& values) { return round(values); },
        options);
    Plan plan = plan_of(step_, best_);
    const double total_us = simulate(step_, plan).total_us;
    return {std::move(plan), total_us, step_.compute_us + std::max(0.0, branched.bound) * unit_us_};
  }

 private:
  const Step& step_;
  double unit_us_;
  LinearProgramme programme_;
  std::vector<std::uint32_t> columns_;  // per tensor
  std::vector<std::uint32_t> whole_;
  Residence best_;
  double best_us_ = without_limit;

  double share(const Tensor& t) const {
    return static_cast<double>(t.bytes) / static_cast<double>(std::max<std::uint64_t>(step_.fast_bytes, 1));
  }

  void add_tensors() {
    for (std::uint32_t t = 0; t < step_.tensors.size(); ++t) {
      const Tensor& tensor = step_.tensors[t];
      if (tensor.uses.empty() || share(tensor) < least_share) continue;
      columns_[t] = programme_.add_column(0, 0, share(tensor) > 1 ? 0 : 1);
      if (share(tensor) <= 1) whole_.push_back(columns_[t]);
    }
  }

  void add(const Operation& op) {
    double sum_us = 0;
    for (const std::uint32_t u : op.uses)
      if (columns_[step_.uses[u].tensor] != no_column) sum_us += step_.uses[u].extra_us;
    if (sum_us <= op.hidden_us) return;
    const std::uint32_t row = programme_.add_row((sum_us - op.hidden_us) / unit_us_, without_limit);
    programme_.add(row, programme_.add_column(1, 0, (sum_us - op.hidden_us) / unit_us_), 1);
    for (const std::uint32_t u : op.uses) {
      const std::uint32_t column = columns_[step_.uses[u].tensor];
      if (column != no_column) programme_.add(row, column, step_.uses[u].extra_us / unit_us_);
    }
  }

  void add_room(std::uint32_t op) {
    const std::uint32_t row = programme_.add_row(-without_limit, 1);
    for (std::uint32_t t = 0; t < step_.tensors.size(); ++t) {
      if (columns_[t] != no_column && life(step_.tensors[t]).holds(op))
        programme_.add(row, columns_[t], share(step_.tensors[t]));
    }
  }

  // In the order of the relaxation's values, then of what is gained for the room.
  double round(const std::vector<double>& values) {
    std::vector<double> wishes(step_.tensors.size(), 0);
    for (std::uint32_t t = 0; t < wishes.size(); ++t)
      wishes[t] = columns_[t] == no_column ? 1 : values[columns_[t]];
    Places places(step_);
    places.fill(wishes);
    places.improve();
    if (places.slow_us() < best_us_) {
      best_us_ = places.slow_us();
      best_ = places.residence();
    }
    return best_us_ / unit_us_;
  }
};

}  // namespace

Planned plan_autotm_static(const Step& step, const Control& control) {
  BranchOptions options;
  options.most_nodes = std::max(1U, static_cast<std::uint32_t>(options.most_nodes * control.effort));
  return Static(step).plan(options);
}

}  // namespace terrace::planner::memories
