#include "daemon/planner/simulate/joint/remade.h"

#include <algorithm>
#include <iterator>

#include "daemon/planner/recompute/search/search.h"

namespace terrace::planner::joint {
namespace {

namespace again = recompute;

constexpr std::size_t most_remade_operations = 5000;  // DTR's rules look at every candidate at every eviction
constexpr double effort = 0.03;                       // of the search's own; each budget has it once
constexpr double whole_effort_operations = 245;       // shorter steps have fewer changes to try
constexpr double shares[] = {0, 0.2, 0.4, 0.6, 0.8};  // of what the machine's budget lacks

class Reader {
 public:
  Reader(const Drafts& drafts, const again::Step& step)
      : drafts_(drafts), step_(step), remade_(step.storages.size()), contents_(contents()) {}

  Choices read(const again::Schedule& schedule) {
    note_positions(schedule);
    Choices choices = drafts_.all_stay();
    for (std::size_t g = 0; g < choices.size(); ++g) {
      Choice& c = choices[g];
      if (c.gap.wraps || contents_[g] == again::nothing || !drafts_.can_be_made_again(g)) continue;
      const std::vector<std::uint32_t>& at = remade_[contents_[g]];
      const auto after = std::upper_bound(at.begin(), at.end(), c.gap.to);
      if (after != at.begin() && *(after - 1) > c.gap.from) drafts_.make_again(&c, *(after - 1));
    }
    return choices;
  }

 private:
  const Drafts& drafts_;
  const again::Step& step_;
  std::vector<std::vector<std::uint32_t>> remade_;  // per storage: positions, rising
  std::vector<std::uint32_t> contents_;             // per gap: the storage that rests in it

  // A run before the first one of operation p, that is not itself a first one, is at position p.
  void note_positions(const again::Schedule& schedule) {
    for (std::vector<std::uint32_t>& at : remade_) at.clear();
    std::uint32_t position = 0;
    for (const again::Move& move : schedule) {
      if (move.kind != again::Move::Kind::compute) continue;
      if (move.index == position) {
        ++position;
        continue;
      }
      for (const std::uint32_t s : step_.operations[move.index].makes) remade_[s].push_back(position);
    }
  }

  // Results stand in a step as outputs do in the trace, each once.
  std::vector<std::uint32_t> contents() const {
    const wire::Trace& trace = drafts_.trace();
    std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> written(trace.tensors.size());
    for (std::uint32_t op = 0; op < trace.ops.size(); ++op) {
      std::size_t next = 0;
      for (const std::uint32_t t : trace.ops[op].outputs) {
        if (!written[t].empty() && written[t].back().first == op) continue;
        written[t].emplace_back(op, step_.operations[op].makes[next++]);
      }
    }
    std::vector<std::uint32_t> storages;
    for (const Choice& c : drafts_.all_stay()) {
      const auto& writes = written[c.gap.tensor];
      const auto after =
          std::upper_bound(writes.begin(), writes.end(), std::pair{c.gap.from, again::nothing});
      storages.push_back(after == writes.begin() ? again::nothing : (after - 1)->second);
    }
    return storages;
  }
};

}  // namespace

std::vector<Choices> remade_alone(const Drafts& drafts, const SwapControl& control) {
  std::vector<Choices> all;
  if (drafts.trace().ops.size() > most_remade_operations) return all;
  const auto step = again::step_of(drafts.trace());
  if (!step) return all;
  again::SearchOptions options;
  options.seed = control.seed;
  const double length = static_cast<double>(step->operations.size()) / whole_effort_operations;
  options.effort = effort * control.effort * std::min(1.0, length * length);
  options.stop = control.stop;
  Reader reader(drafts, *step);
  const std::uint64_t budget = drafts.machine().tiers[0].capacity_bytes;
  const std::uint64_t peak = std::max(peak_bytes_of(*step), budget);
  const double starts = std::size(shares) * std::min(1.0, control.effort);
  for (std::size_t i = 0; static_cast<double>(i) + 1 <= starts && !control.stopped(); ++i) {
    const auto more = static_cast<std::uint64_t>(shares[i] * static_cast<double>(peak - budget));
    const auto schedule = search_recomputation(*step, budget + more, options);
    if (schedule) all.push_back(reader.read(*schedule));
  }
  return all;
}

}  // namespace terrace::planner::joint
