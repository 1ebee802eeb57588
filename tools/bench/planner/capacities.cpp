// The smallest capacity for which a placement is found, and the largest that is proven infeasible, by time.
//
// MiniMalloc's D and J are published with capacities that leave room above the largest sum of bytes alive;
// how much of it is needed is not published. The portfolio gives a first placement; then the exact search is
// asked about one capacity after the other (capacity_turns.h) until the time is up. One thread. A search that
// the clock cuts off decides nothing, so what is known after the first limit would also be known in a run
// that ends there.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/planner/reuse/search/search.h"
#include "tools/bench/measuring/measure.h"
#include "tools/bench/planner/capacity_turns.h"
#include "tools/bench/planner/parts.h"
#include "tools/cli/plan/plan_load.h"

namespace terrace::bench {
namespace {

using planner::Instance;
using planner::Placement;

constexpr const char* capacities_title =
    "Smallest capacity found and largest proven infeasible, single-threaded";
constexpr const char* open_instances[] = {"D.1048576", "J.1048576"};
// Of the portfolio, some half a second: its clock would let every run of the searches begin elsewhere.
constexpr std::uint64_t first_plan_steps = std::uint64_t{1} << 19;

// What was known from `at_s` on.
struct Known {
  double at_s = 0;
  std::uint64_t found_bytes = 0;
  std::uint64_t infeasible_bytes = 0;
  bool closed = false;
};

// What all heights of placements that are pushed down are multiples of.
std::uint64_t granule_of(const Instance& instance) {
  std::uint64_t common = 0;
  std::uint64_t alignment = 1;
  for (const planner::Buffer& b : instance.buffers) {
    common = std::gcd(common, b.bytes);
    alignment = std::max(alignment, b.alignment);
  }
  return common != 0 && common % alignment == 0 ? common : 1;
}

planner::ReusePolicy portfolio_policy() {
  const std::vector<planner::ReusePolicy> all = planner::reuse_policies();
  return *std::find_if(all.begin(), all.end(),
                       [](const planner::ReusePolicy& p) { return std::string_view(p.name) == "terrace"; });
}

class CapacityRun {
 public:
  CapacityRun(const Instance& instance, double limit_s) : instance_(instance), limit_s_(limit_s) {}

  // What was learnt, in order; nothing if no placement was found at all.
  std::vector<Known> run() {
    planner::SearchControl control;
    control.steps = first_plan_steps;
    control.stop = [&] { return elapsed_s() >= limit_s_; };
    const auto first = portfolio_policy().place(instance_, control);
    if (!first || !check(*first)) return {};
    CapacityTurns turns(planner::max_live_bytes(instance_.buffers), granule_of(instance_),
                        first->total_bytes);
    note(turns);
    while (!turns.closed() && elapsed_s() < limit_s_) {
      take(turns.next(), &turns);
      note(turns);
    }
    return known_;
  }

  const std::string& wrong() const { return wrong_; }
  std::uint64_t nodes() const { return nodes_; }

 private:
  double elapsed_s() const { return now_s() - start_s_; }

  void take(const CapacityTurns::Turn& turn, CapacityTurns* turns) {
    const planner::search::SearchLimits limits{turn.nodes, [&] { return elapsed_s() >= limit_s_; },
                                               turn.seed};
    const auto result = planner::search::solve(instance_, turn.capacity_bytes, limits);
    nodes_ += result.nodes;
    switch (result.verdict) {
      case planner::search::Verdict::infeasible:
        return turns->infeasible();
      case planner::search::Verdict::stopped:
        return turns->undecided();
      case planner::search::Verdict::found:
        break;
    }
    if (!check(result.placement)) return turns->undecided();
    turns->found(result.placement.total_bytes);
  }

  bool check(const Placement& placement) {
    const std::string wrong = planner::check_placement(instance_, placement);
    if (wrong_.empty()) wrong_ = wrong;
    return wrong.empty();
  }

  void note(const CapacityTurns& turns) {
    const Known now{elapsed_s(), turns.found_bytes(), turns.infeasible_bytes(), turns.closed()};
    if (!known_.empty() && known_.back().found_bytes == now.found_bytes &&
        known_.back().infeasible_bytes == now.infeasible_bytes)
      return;
    known_.push_back(now);
  }

  const Instance& instance_;
  double limit_s_;
  double start_s_ = now_s();
  std::vector<Known> known_;
  std::string wrong_;  // of the first placement that the judge refused
  std::uint64_t nodes_ = 0;
};

std::string key_of(const char* what, long seconds) { return fmt::format("{}_after_{}_s", what, seconds); }

// What was known when `seconds` were over; the first placement may have come a moment later than a very short
// limit.
const Known& known_after(const std::vector<Known>& known, long seconds) {
  const Known* last = known.data();
  for (const Known& k : known)
    if (k.at_s <= static_cast<double>(seconds)) last = &k;
  return *last;
}

Json capacities_row(const PlannerOptions& options, const std::string& name, const Instance& instance) {
  Json row{{"instance", name},
           {"buffers", instance.buffers.size()},
           {"bound_bytes", planner::max_live_bytes(instance.buffers)}};
  CapacityRun run(instance, static_cast<double>(options.seconds.back()));
  const std::vector<Known> known = run.run();
  for (const long seconds : options.seconds) {
    if (known.empty()) break;
    const Known& then = known_after(known, seconds);
    row[key_of("found", seconds)] = then.found_bytes;
    row[key_of("infeasible", seconds)] = then.infeasible_bytes;
    row["closed"] = then.closed;
  }
  row["valid"] = !known.empty() && run.wrong().empty();
  if (!run.wrong().empty()) row["wrong"] = run.wrong();
  row["nodes"] = run.nodes();
  for (const Known& k : known)
    row["learnt"].push_back(
        {{"seconds", k.at_s}, {"found_bytes", k.found_bytes}, {"infeasible_bytes", k.infeasible_bytes}});
  return row;
}

Json capacities_table(const PlannerOptions& options) {
  std::vector<Json> columns{column("instance", "instance", "text"), column("buffers", "buffers", "count"),
                            column("bound_bytes", "bound", "count")};
  for (const long seconds : options.seconds) {
    columns.push_back(
        column(key_of("found", seconds).c_str(), fmt::format("found, {} s", seconds).c_str(), "count"));
    columns.push_back(column(key_of("infeasible", seconds).c_str(),
                             fmt::format("infeasible, {} s", seconds).c_str(), "count"));
  }
  columns.push_back(column("closed", "closed", "yes"));
  columns.push_back(column("valid", "valid", "yes"));
  return section(capacities_title, std::move(columns));
}

}  // namespace

Json measure_capacities(const PlannerOptions& options) {
  Json out = capacities_table(options);
  out["notes"] =
      Json::array({"bytes; bound: most bytes alive at once, so that a byte less is infeasible; closed: "
                   "no capacity between is undecided"});
  for (const char* name : open_instances) {
    const std::string file = fmt::format("minimalloc/{}.csv", name);
    const auto input = cli::load_plan_input(options.data + "/" + file);
    if (!input.result) {
      out["notes"].push_back(fmt::format(
          "{}: {}", name, data_file(options, file) ? input.result.error : "no " + file + " in the data"));
      continue;
    }
    out["rows"].push_back(capacities_row(options, name, input.result->instance));
  }
  if (out["rows"].empty())
    return skipped(capacities_title, "neither D nor J of minimalloc/*.csv in the data");
  return out;
}

}  // namespace terrace::bench
