#include "tools/cli/plan/plan_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>

#include "tools/cli/base/format.h"
#include "tools/cli/terminal/table.h"
#include "tools/plot/curve_plot.h"

namespace terrace::cli {

namespace {

constexpr std::uint64_t budgets = 10;
constexpr int halvings = 7;               // of the range in which the smallest budget lies
constexpr double effort_to_fit = 0.02;    // of a search that only asks whether there is a plan
constexpr std::uint32_t timed_steps = 2;  // as in run_policy()

class CurveMaker {
 public:
  CurveMaker(const planner::SwapPolicy& policy, const planner::Machine& machine, const PlanLimits& limits,
             SearchWatch& watch, BudgetCurve* curve)
      : policy_(policy), machine_(machine), limits_(limits), watch_(watch), curve_(*curve) {}

  void make() {
    find_smallest();
    if (curve_.smallest_bytes == 0) return;
    for (const std::uint64_t budget_bytes : wanted_budgets()) {
      if (SearchWatch::interrupted()) return;
      add(budget_bytes);
    }
  }

 private:
  const planner::SwapPolicy& policy_;
  planner::Machine machine_;
  PlanLimits limits_;
  SearchWatch& watch_;
  BudgetCurve& curve_;

  std::set<std::uint64_t> wanted_budgets() const {
    const std::uint64_t range = curve_.live_bytes - std::min(curve_.smallest_bytes, curve_.live_bytes);
    const std::uint64_t count = range == 0 ? 1 : budgets;
    std::set<std::uint64_t> wanted;
    for (std::uint64_t i = 0; i < count; ++i)
      wanted.insert(curve_.smallest_bytes + (count == 1 ? 0 : range / (count - 1) * i));
    if (curve_.measured && curve_.measured->budget_bytes >= curve_.smallest_bytes)
      wanted.insert(curve_.measured->budget_bytes);
    if (curve_.asked_bytes >= curve_.smallest_bytes) wanted.insert(curve_.asked_bytes);
    return wanted;
  }

  SwapRun run(std::uint64_t budget_bytes, double effort) {
    machine_.tiers.front().capacity_bytes = budget_bytes;
    PlanLimits limits = limits_;
    limits.effort *= effort;
    return run_policy(policy_, *curve_.trace, machine_, limits, watch_);
  }

  bool fits(std::uint64_t budget_bytes) {
    const SwapRun tried = run(budget_bytes, effort_to_fit);
    if (!tried.valid()) curve_.why_not = tried.why_not.empty() ? tried.wrong : tried.why_not;
    return tried.valid();
  }

  void find_smallest() {
    std::uint64_t low = curve_.needed_bytes, high = curve_.live_bytes;
    if (fits(low)) {
      curve_.smallest_bytes = low;
      return;
    }
    if (!fits(high)) return;
    for (int i = 0; i < halvings && !SearchWatch::interrupted(); ++i) {
      const std::uint64_t middle = low + (high - low) / 2;
      (fits(middle) ? high : low) = middle;
    }
    curve_.smallest_bytes = high;
  }

  void add(std::uint64_t budget_bytes) {
    SwapRun found = run(budget_bytes, 1);
    if (!curve_.points.empty()) keep_faster(curve_.points.back().run, &found);
    if (found.valid()) curve_.points.push_back({budget_bytes, std::move(found)});
  }

  // The plan for less memory, timed with more, takes the place of one that is slower.
  void keep_faster(const SwapRun& before, SwapRun* found) {
    SwapRun again = before;
    planner::SimulationOptions options;
    options.victims = before.schedule->victims;
    options.steps = timed_steps;
    options.record_timeline = true;
    auto report = planner::simulate(*curve_.trace, machine_, *before.schedule, options);
    if (!report || (found->valid() && found->report->total_us <= report->total_us)) return;
    again.wrong = planner::check_timeline(*curve_.trace, machine_, *report);
    again.report = std::move(report.value);
    again.seconds = found->seconds;
    *found = std::move(again);
  }
};

double slowdown(const planner::SimulationReport& report) {
  return report.bounds.compute_us > 0 ? report.total_us / report.bounds.compute_us : 1;
}

double moved_bytes(const planner::SimulationReport& report) {
  double most = 0;
  for (const planner::LinkUse& link : report.links) most = std::max(most, link.in_bytes + link.out_bytes);
  return most;
}

std::string share_of_all(std::uint64_t budget_bytes, const BudgetCurve& curve) {
  return fmt::format("{:.0f}%",
                     100 * static_cast<double>(budget_bytes) / static_cast<double>(curve.live_bytes));
}

nlohmann::json row_of(const BudgetPoint& p, const BudgetCurve& curve) {
  const planner::SimulationReport& r = *p.run.report;
  return {{"budget", p.budget_bytes},      {"share", share_of_all(p.budget_bytes, curve)},
          {"total", r.total_us / 1e6},     {"slowdown", fmt::format("{:.4g}", slowdown(r))},
          {"again", r.recompute_us / 1e6}, {"moved", static_cast<std::uint64_t>(moved_bytes(r))},
          {"point", "predicted"}};
}

// Computing alone takes what the trace's operations take, in every point.
double measured_slowdown(const BudgetCurve& curve) {
  const double compute_us = curve.points.empty() ? 0 : curve.points.front().run.report->bounds.compute_us;
  return compute_us > 0 ? curve.measured->step_us / compute_us : 1;
}

// After the prediction for the same budget; last where the budget is not known.
void put_measured(const BudgetCurve& curve, Rows* rows) {
  if (!curve.measured) return;
  const MeasuredPoint& m = *curve.measured;
  nlohmann::json row{{"total", m.step_us / 1e6},
                     {"slowdown", fmt::format("{:.4g}", measured_slowdown(curve))},
                     {"moved", static_cast<std::uint64_t>(m.moved_bytes)},
                     {"point", fmt::format("measured, {} steps", m.steps)}};
  auto after = rows->end();
  if (m.budget_bytes != 0) {
    row["budget"] = m.budget_bytes;
    row["share"] = share_of_all(m.budget_bytes, curve);
    const auto points = std::count_if(curve.points.begin(), curve.points.end(),
                                      [&](const BudgetPoint& p) { return p.budget_bytes <= m.budget_bytes; });
    after = std::next(rows->begin(), points);
  }
  rows->insert(after, std::move(row));
}

}  // namespace

BudgetCurve budget_curve(const planner::SwapPolicy& policy, const wire::Trace& trace,
                         const planner::Machine& machine, const PlanLimits& limits, SearchWatch& watch,
                         const std::optional<MeasuredPoint>& measured,
                         const std::optional<wire::Amount>& asked) {
  const planner::LowerBounds bounds = planner::lower_bounds(trace, machine);
  BudgetCurve curve{&trace, &machine, policy.name, bounds.largest_op_bytes, bounds.max_live_bytes, 0,
                    {},     {},       measured};
  if (asked) curve.asked_bytes = asked->of(curve.live_bytes);
  CurveMaker(policy, machine, limits, watch, &curve).make();
  return curve;
}

std::string curve_table(const BudgetCurve& curve, bool exact_bytes) {
  constexpr std::array columns{Column{"budget", "BUDGET", Kind::bytes},
                               Column{"share", "OF ALL", Kind::text},
                               Column{"total", "STEP", Kind::seconds},
                               Column{"slowdown", "SLOWDOWN", Kind::count},
                               Column{"again", "COMPUTED AGAIN", Kind::seconds},
                               Column{"moved", "MOVED", Kind::bytes},
                               Column{"point", "POINT", Kind::text}};
  const std::size_t unmarked = curve.measured ? 0 : 1;  // without one that was measured all are predicted
  Rows rows;
  for (const BudgetPoint& p : curve.points) rows.push_back(row_of(p, curve));
  put_measured(curve, &rows);
  return fmt::format(
             "by policy {}; the largest operation needs {}, {} live at once\nsmallest budget that fits: "
             "{}\n\n",
             curve.policy, bytes_text(curve.needed_bytes, exact_bytes),
             bytes_text(curve.live_bytes, exact_bytes), bytes_text(curve.smallest_bytes, exact_bytes)) +
         render(Columns(columns.begin(), columns.end() - unmarked), rows, {exact_bytes, true});
}

nlohmann::ordered_json curve_json(const BudgetCurve& curve) {
  nlohmann::ordered_json out{{"format", "terrace-budget-curve"}, {"version", 1},
                             {"trace", curve.trace->name},       {"machine", curve.machine->name},
                             {"policy", curve.policy},           {"needed_bytes", curve.needed_bytes},
                             {"live_bytes", curve.live_bytes},   {"smallest_bytes", curve.smallest_bytes}};
  out["points"] = nlohmann::ordered_json::array();
  for (const BudgetPoint& p : curve.points) {
    const planner::SimulationReport& r = *p.run.report;
    out["points"].push_back({{"budget_bytes", p.budget_bytes},
                             {"total_us", r.total_us},
                             {"slowdown", slowdown(r)},
                             {"recompute_us", r.recompute_us},
                             {"moved_bytes", moved_bytes(r)},
                             {"stopped", p.run.stopped},
                             {"seconds", p.run.seconds}});
  }
  if (!curve.measured) return out;
  const MeasuredPoint& m = *curve.measured;
  out["measured"] = {{"total_us", m.step_us},
                     {"waited_us", m.waited_us},
                     {"slowdown", measured_slowdown(curve)},
                     {"moved_bytes", m.moved_bytes},
                     {"steps", m.steps}};
  if (m.budget_bytes != 0) out["measured"]["budget_bytes"] = m.budget_bytes;
  return out;
}

Result<PlanPoint> asked_point(const BudgetCurve& curve, const std::string& program) {
  const auto found = std::find_if(curve.points.begin(), curve.points.end(),
                                  [&](const BudgetPoint& p) { return p.budget_bytes == curve.asked_bytes; });
  if (found == curve.points.end())
    return refused<PlanPoint>(
        fmt::format("--point: the step was not planned for {}; the smallest budget that fits is {}",
                    bytes_text(curve.asked_bytes), bytes_text(curve.smallest_bytes)));
  const planner::SimulationReport& r = *found->run.report;
  return ok(PlanPoint{curve.trace->name, curve.machine->name, curve.policy, program, found->budget_bytes,
                      curve.live_bytes, r.total_us, r.bounds.compute_us, moved_bytes(r)});
}

Result<std::vector<std::string>> plot_budgets(const std::string& prefix, const BudgetCurve& curve) {
  plot::CurvePicture picture;
  picture.title = fmt::format("{} on {}, by {}", curve.trace->name, curve.machine->name, curve.policy);
  for (const BudgetPoint& p : curve.points) {
    picture.points.push_back({p.budget_bytes, p.run.report->total_us});
    picture.compute_us = p.run.report->bounds.compute_us;
  }
  if (curve.measured && curve.measured->budget_bytes != 0)
    picture.measured = plot::CurvePoint{curve.measured->budget_bytes, curve.measured->step_us};
  return plot::plot_curve(prefix + "-budgets", picture);
}

}  // namespace terrace::cli
