#include "daemon/planner/simulate/joint/remade.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "daemon/planner/recompute/search/search.h"

namespace terrace::planner::joint {
namespace {

namespace again = recompute;

constexpr std::size_t most_remade_operations = 5000;  // DTR's rules look at every candidate at every eviction
constexpr double effort_alone = 0.03;                 // of the search's own; each budget has it once
constexpr double effort_beside = 0.1;                 // and this where there is a link
constexpr double whole_effort_operations = 245;       // shorter steps have fewer changes to try
constexpr double shares[] = {0, 0.2, 0.4, 0.6, 0.8};  // of what the machine's budget lacks
constexpr double most_beside = 0.4;                   // of those, where the search beside a link goes on
// What is this small beside what else its operation makes stays: where that is updated in place later, making
// both again takes two runs here, and one in the search.
constexpr std::uint64_t small_part = 64;

// What the runs of a search mean for the gaps of the step.
class Reader {
 public:
  Reader(const Drafts& drafts, const again::Step& step)
      : drafts_(drafts), step_(step), holding_(step), remade_(step.storages.size()) {
    find_contents();
  }

  // `link` is null where nothing is carried.
  Start read(const again::CarriedRuns& found, const again::Link* link) {
    again::Link none;
    holding_.look(found.runs, found.carried, link == nullptr ? none : *link);
    note_runs(found.runs);
    Start start{drafts_.all_stay(), tails_of(found.runs)};
    for (std::size_t g = 0; g < start.choices.size(); ++g) read_remade(g, &start.choices[g]);
    for (std::size_t i = 0; i < found.carried.size(); ++i)
      read_carried(found, holding_.carrying().absences()[i], found.carried[i], &start.choices);
    return start;
  }

 private:
  const Drafts& drafts_;
  const again::Step& step_;
  again::Holding holding_;
  std::vector<std::vector<std::uint32_t>> remade_;  // per storage: positions, rising
  std::vector<std::uint32_t> contents_;             // per gap: the storage that rests in it
  std::vector<std::uint32_t> tensor_;               // per storage that is its tensor's last content
  std::vector<std::uint32_t> last_use_;             // per tensor: the last operation that names it

  std::uint32_t position(std::uint32_t run) const { return holding_.times().position[run]; }
  // Whether the run is the first one of its operation.
  bool is_first(const again::Runs& runs, std::uint32_t run) const { return runs[run] == position(run); }

  // Results stand in a step as outputs do in the trace, each once.
  void find_contents() {
    const wire::Trace& trace = drafts_.trace();
    std::vector<std::uint32_t> constant(trace.tensors.size(), again::nothing);
    std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> written(trace.tensors.size());
    last_use_.assign(trace.tensors.size(), 0);
    std::vector<std::uint32_t> last_read(trace.tensors.size(), again::nothing);
    for (std::uint32_t op = 0; op < trace.ops.size(); ++op) {
      std::size_t next = 0;
      std::size_t read = 0;
      for (const std::uint32_t t : trace.ops[op].inputs) {
        if (last_read[t] == op) continue;  // each once, as the step has them
        last_read[t] = last_use_[t] = op;
        const std::uint32_t storage = step_.operations[op].reads[read++];
        if (step_.storages[storage].constant()) constant[t] = storage;
      }
      for (const std::uint32_t t : trace.ops[op].outputs) {
        last_use_[t] = op;
        if (!written[t].empty() && written[t].back().first == op) continue;
        written[t].emplace_back(op, step_.operations[op].makes[next++]);
      }
    }
    for (const Choice& c : drafts_.all_stay()) {
      const auto& writes = written[c.gap.tensor];
      const auto after =
          std::upper_bound(writes.begin(), writes.end(), std::pair{c.gap.from, again::nothing});
      contents_.push_back(after == writes.begin() ? constant[c.gap.tensor] : (after - 1)->second);
    }
    tensor_.assign(step_.storages.size(), again::nothing);
    for (std::uint32_t t = 0; t < written.size(); ++t)
      if (!written[t].empty() && !trace.tensors[t].persistent) tensor_[written[t].back().second] = t;
  }

  void note_runs(const again::Runs& runs) {
    for (std::vector<std::uint32_t>& at : remade_) at.clear();
    for (std::uint32_t run = 0; run < runs.size(); ++run) {
      if (is_first(runs, run)) continue;
      for (const std::uint32_t s : step_.operations[runs[run]].makes) remade_[s].push_back(position(run));
    }
  }

  // What was there at its tensor's last use, and is read by a run behind that.
  std::vector<Tail> tails_of(const again::Runs& runs) const {
    std::vector<std::uint32_t> made(step_.storages.size(), again::nothing);  // position, of what there is
    std::vector<Tail> tails;
    std::vector<std::size_t> tail(step_.storages.size(), 0);  // 1 + index
    for (std::uint32_t run = 0; run < runs.size(); ++run) {
      for (const std::uint32_t s : step_.operations[runs[run]].reads) {
        const std::uint32_t t = tensor_[s];
        if (t == again::nothing || step_.storages[s].bytes == 0) continue;
        if (position(run) <= last_use_[t] + 1 || made[s] > last_use_[t]) continue;
        if (tail[s] == 0) {
          tails.push_back({t, 0});
          tail[s] = tails.size();
        }
        tails[tail[s] - 1].until = position(run);
      }
      for (const std::uint32_t s : step_.operations[runs[run]].makes) made[s] = position(run);
    }
    return tails;
  }

  void read_remade(std::size_t gap, Choice* c) const {
    const std::uint32_t content = contents_[gap];
    if (c->gap.wraps || content == again::nothing || !drafts_.can_be_made_again(gap)) return;
    const again::Storage& storage = step_.storages[content];
    if (storage.constant()) return;
    if (storage.bytes * small_part < step_.operations[storage.maker].made_bytes) return;
    const std::vector<std::uint32_t>& at = remade_[content];
    const auto after = std::upper_bound(at.begin(), at.end(), c->gap.to);
    if (after != at.begin() && *(after - 1) > c->gap.from) drafts_.make_again(c, *(after - 1));
  }

  void read_carried(const again::CarriedRuns& found, const again::Absence& absence,
                    const again::Carried& carried, Choices* choices) const {
    if (absence.begin >= absence.end) return;
    const auto over = [&](const Gap& gap) { return gap.from < carried.over && carried.over <= gap.to; };
    for (std::size_t g = 0; g < choices->size(); ++g) {
      Choice& c = (*choices)[g];
      if (contents_[g] != carried.storage || c.gap.wraps || c.way != Way::stays || !over(c.gap)) continue;
      drafts_.move(&c, drafts_.far().tiers().front());
      const std::uint32_t after = position(absence.after) + (is_first(found.runs, absence.after) ? 1 : 0);
      c.out = std::max(c.out, after);
      c.in = std::clamp(position(absence.end), std::min(c.out, c.gap.to), c.gap.to);
      return;
    }
  }
};

again::Link link_of(const FarTiers& far) {
  constexpr std::uint64_t sample = std::uint64_t{1} << 30;
  const std::uint32_t tier = far.tiers().front();
  const double latency_us = far.transfer_us(tier, 0, false);
  const auto ns_per_byte = [&](bool in) {
    return (far.transfer_us(tier, sample, in) - far.transfer_us(tier, 0, in)) * 1000 / sample;
  };
  return {ns_per_byte(false), ns_per_byte(true), latency_us * 1000};
}

}  // namespace

std::vector<Start> starts_that_recompute(const Drafts& drafts, const SwapControl& control) {
  std::vector<Start> starts;
  if (drafts.trace().ops.size() > most_remade_operations) return starts;
  const auto step = again::step_of(drafts.trace(), false);
  if (!step) return starts;
  const double length = static_cast<double>(step->operations.size()) / whole_effort_operations;
  again::SearchOptions options;
  options.seed = control.seed;
  options.stop = control.stop;
  Reader reader(drafts, *step);
  const std::uint64_t budget = drafts.machine().tiers[0].capacity_bytes;
  const std::uint64_t peak = std::max(peak_bytes_of(*step), budget);
  const double most = std::size(shares) * std::min(1.0, control.effort);
  for (std::size_t i = 0; static_cast<double>(i) + 1 <= most && !control.stopped(); ++i) {
    if (i > 0 && !drafts.far().any()) break;
    const auto more = static_cast<std::uint64_t>(shares[i] * static_cast<double>(peak - budget));
    options.effort = effort_alone * control.effort * std::min(1.0, length * length);
    const auto schedule = search_recomputation(*step, budget + more, options);
    if (!schedule) continue;
    const again::CarriedRuns alone{again::runs_of(*schedule), {}};
    Start start = reader.read(alone, nullptr);
    if (drafts.far().any()) starts.push_back({drafts.complete(start.choices), start.tails});
    if (i == 0) starts.push_back(std::move(start));
    if (!drafts.far().any()) break;
    if (shares[i] > most_beside) continue;
    const again::Link link = link_of(drafts.far());
    options.effort = effort_beside * control.effort * std::min(1.0, length * length);
    const auto beside = search_beside_link(*step, budget, link, alone, options);
    if (beside) starts.push_back(reader.read(*beside, &link));
  }
  return starts;
}

}  // namespace terrace::planner::joint
