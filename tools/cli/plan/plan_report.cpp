#include "tools/cli/plan/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <functional>
#include <utility>

#include "daemon/planner/estimate/estimate.h"
#include "daemon/planner/order/scheduled.h"
#include "daemon/planner/trace_limits.h"
#include "tools/cli/base/format.h"
#include "tools/cli/terminal/table.h"

namespace terrace::cli {

using nlohmann::json;
using nlohmann::ordered_json;
using planner::SimulationReport;

namespace {

constexpr std::array placement_columns{
    Column{"policy", "POLICY", Kind::text},    Column{"total", "TOTAL", Kind::bytes},
    Column{"over", "OVER BOUND", Kind::count}, Column{"seconds", "TIME", Kind::seconds},
    Column{"valid", "VALID", Kind::text},      Column{"note", "", Kind::text},
};

std::string percent_over(double ratio) {
  return ratio == 1 ? "0%" : fmt::format("+{:.{}f}%", 100 * (ratio - 1), ratio < 1.1 ? 2 : 1);
}

double ratio_of(double value, double bound) { return bound > 0 ? value / bound : 1; }

template <class Run>
std::string note_of(const Run& run) {
  return !run.why_not.empty() ? "no plan" : run.wrong;
}

// Bounds hold for the step that was given, in its order; some runs are of another one, or in another order.
const StepBounds* bounds_of(const SwapRun& run, const std::optional<StepBounds>& bounds) {
  if (run.report && !run.report->operations.empty())
    return run.bounds_in_its_order ? &*run.bounds_in_its_order : nullptr;
  return bounds && !run.of_another_step ? &*bounds : nullptr;
}

// What it decides of the operations themselves. The bound beside it is that of its order.
std::string choices_text(const SimulationReport& report) {
  std::string text;
  if (!report.variants.empty()) text = fmt::format("{} operations in a variant", report.variants.size());
  if (report.operations.empty()) return text;
  return text + (text.empty() ? "" : ", ") +
         fmt::format("{} operations in another place, BOUND of that order",
                     planner::moved_operations(report.operations));
}

// Sentences, which a table has no room for.
template <class Run>
std::string reasons(const std::vector<Run>& runs) {
  std::string text;
  for (const Run& run : runs)
    if (!run.why_not.empty()) text += fmt::format("{}: {}\n", run.policy.name, run.why_not);
  return text;
}

json placement_row(const ReuseRun& run, std::uint64_t bound, const PlanLimits& limits) {
  json row{{"policy", run.policy.name}, {"note", note_of(run)}};
  if (!run.placement) return row;
  row["seconds"] = run.seconds;
  const std::uint64_t total = run.placement->total_bytes;
  row["total"] = total;
  row["over"] = percent_over(ratio_of(static_cast<double>(total), static_cast<double>(bound)));
  row["valid"] = run.valid() ? "yes" : "NO";
  if (run.valid() && run.stopped) row["note"] = "stopped: the best so far";
  if (run.valid() && limits.capacity_bytes != 0)
    row["note"] = total <= limits.capacity_bytes ? "fits" : "does not fit";
  return row;
}

std::string placement_table(const PlanReport& report, const TableStyle& style) {
  const std::uint64_t bound = planner::max_live_bytes(report.input->instance.buffers);
  Rows rows;
  for (const ReuseRun& run : report.reuse) rows.push_back(placement_row(run, bound, report.limits));
  return render(Columns(placement_columns.begin(), placement_columns.end()), rows, style) +
         reasons(report.reuse);
}

// Columns whose names depend on the machine; the table holds pointers to them.
class SwapTable {
 public:
  explicit SwapTable(const PlanReport& report) : machine_(*report.machine), bounds_(report.bounds) {
    add("policy", "POLICY", Kind::text);
    add("total", "STEP", Kind::seconds);
    add("slowdown", "SLOWDOWN", Kind::count);
    add("bound", "BOUND", Kind::count);
    add("over", "OVER BOUND", Kind::count);
    add("late", "LATE", Kind::seconds);
    add("fetch", "FETCHED", Kind::seconds);
    add("room", "NO ROOM", Kind::seconds);
    for (const planner::Link& link : machine_.links) {
      add("in " + link.name, link.name + " IN", Kind::bytes);
      add("out " + link.name, link.name + " OUT", Kind::bytes);
    }
    for (const planner::Tier& tier : machine_.tiers)
      add("peak " + tier.name, tier.name + " PEAK", Kind::bytes);
    add("valid", "VALID", Kind::text);
    add("note", "", Kind::text);
  }

  void add_row(const SwapRun& run) {
    json row{{"policy", run.policy.name}, {"note", note_of(run)}};
    if (run.report) fill(run, &row);
    if (run.report) row["valid"] = run.valid() ? "yes" : "NO";
    if (run.valid()) row["note"] = choices_text(*run.report);
    if (run.valid() && run.of_another_step) row["note"] = "the update on the CPU";
    if (run.valid() && run.stopped) row["note"] = "stopped: the best so far";
    rows_.push_back(std::move(row));
  }

  std::string text(const TableStyle& style) const { return render(columns_, rows_, style); }

 private:
  void add(const std::string& name, const std::string& heading, Kind kind) {
    const char* kept_name = names_.emplace_back(name).c_str();
    columns_.push_back({kept_name, names_.emplace_back(heading).c_str(), kind});
  }

  void fill(const SwapRun& run, json* row) const {
    const SimulationReport& report = *run.report;
    (*row)["total"] = report.total_us / 1e6;
    (*row)["slowdown"] = fmt::format("{:.4g}", ratio_of(report.total_us, report.bounds.compute_us));
    if (const StepBounds* bounds = bounds_of(run, bounds_)) {
      const double least_us = bounds->of(report).step_us;
      (*row)["bound"] = fmt::format("{:.4g}", ratio_of(least_us, report.bounds.compute_us));
      (*row)["over"] = percent_over(ratio_of(report.total_us, least_us));
    }
    (*row)["late"] = report.stalls.late_prefetch_us / 1e6;
    (*row)["fetch"] = report.stalls.fetch_us / 1e6;
    (*row)["room"] = report.stalls.room_us / 1e6;
    for (std::size_t i = 0; i < report.links.size(); ++i) {
      (*row)["in " + machine_.links[i].name] = report.links[i].in_bytes;
      (*row)["out " + machine_.links[i].name] = report.links[i].out_bytes;
    }
    for (std::size_t i = 0; i < report.tier_peak_bytes.size(); ++i)
      (*row)["peak " + machine_.tiers[i].name] = report.tier_peak_bytes[i];
  }

  const planner::Machine& machine_;
  const std::optional<StepBounds>& bounds_;
  std::deque<std::string> names_;
  Columns columns_;
  Rows rows_;
};

std::string seconds_text(double us) {
  constexpr double most_ns = 1e19;  // fits 64 bits: 317 years
  return std::isinf(us) ? "impossible"
                        : duration_text(static_cast<std::uint64_t>(std::min(us * 1e3, most_ns)));
}

std::string step_bounds_text(const StepBounds& bounds) {
  std::string text = ", step " + seconds_text(bounds.moving.step_us);
  if (bounds.recomputing) text += ", with recomputation " + seconds_text(bounds.recomputing->step_us);
  const bool finished = bounds.moving.finished && (!bounds.recomputing || bounds.recomputing->finished);
  return text + (finished ? "" : " (its search was cut short: it could be higher)");
}

std::string machine_summary(const PlanReport& report, bool exact) {
  std::string text = "machine  " + report.machine->name;
  for (const planner::Tier& tier : report.machine->tiers)
    text +=
        fmt::format(", {} {}", tier.name,
                    tier.capacity_bytes == planner::unlimited_bytes ? "without limit"
                                                                    : bytes_text(tier.capacity_bytes, exact));
  if (report.input->trace == nullptr) return text + "\n";
  const planner::LowerBounds bounds = planner::lower_bounds(*report.input->trace, *report.machine);
  text += fmt::format("\nbounds   computing {}, transfers {}, longest chain {}, largest operation {}",
                      seconds_text(bounds.compute_us), seconds_text(bounds.transfer_us),
                      seconds_text(bounds.critical_path_us), bytes_text(bounds.largest_op_bytes, exact));
  return text + (report.bounds ? step_bounds_text(*report.bounds) : "") + "\n";
}

std::string swap_tables(const PlanReport& report, const TableStyle& style) {
  std::string text = machine_summary(report, style.exact_bytes);
  if (report.swap.empty()) return text;
  SwapTable table(report);
  for (const SwapRun& run : report.swap) table.add_row(run);
  return text.append("\n").append(table.text(style)).append(reasons(report.swap));
}

// "addresses of joint: 39.9 GiB needed, gpu has 40.0 GiB: fit; the same in every step".
std::string address_line(const SwapRun& run, const planner::Machine& machine, bool exact) {
  if (!run.addresses) return "";
  const planner::Addresses& a = *run.addresses;
  const std::uint64_t capacity_bytes = machine.tiers[0].capacity_bytes;
  const char* verdict = !a.fit     ? "do not fit, though the bytes do"
                        : a.repeat ? "fit; the same in every step"
                                   : "fit; others from one step to the next";
  return fmt::format("addresses of {}: {} needed, {} has {}: {}\n", run.policy.name,
                     bytes_text(a.needed_bytes, exact), machine.tiers[0].name,
                     bytes_text(capacity_bytes, exact), verdict);
}

std::string best_line(const PlanReport& report, bool exact) {
  std::string text;
  if (const ReuseRun* best = best_of(report.reuse); best != nullptr && report.reuse.size() > 1)
    text += fmt::format("\nleast memory: {}, {}", best->policy.name,
                        bytes_text(best->placement->total_bytes, exact));
  if (const SwapRun* best = best_of(report.swap); best != nullptr && report.swap.size() > 1)
    text += fmt::format("\nleast time: {}, {}", best->policy.name, seconds_text(best->report->total_us));
  if (!text.empty()) text += "\n";
  const SwapRun* best = best_of(report.swap);
  if (best == nullptr || !best->addresses) return text;
  return text + (text.empty() ? "\n" : "") + address_line(*best, *report.machine, exact);
}

ordered_json run_heading(const auto& run) {
  ordered_json out{{"policy", run.policy.name},
                   {"family", run.policy.family},
                   {"source", run.policy.source},
                   {"seconds", run.seconds},
                   {"valid", run.valid()}};
  if (!run.why_not.empty()) out["refused"] = run.why_not;
  if (!run.wrong.empty()) out["wrong"] = run.wrong;
  return out;
}

ordered_json json_of(const ReuseRun& run, std::uint64_t bound) {
  ordered_json out = run_heading(run);
  out["stopped"] = run.stopped;
  if (!run.placement) return out;
  out["total_bytes"] = run.placement->total_bytes;
  out["to_bound"] = ratio_of(static_cast<double>(run.placement->total_bytes), static_cast<double>(bound));
  return out;
}

ordered_json json_of(const SwapRun& run, const PlanReport& report) {
  const planner::Machine& machine = *report.machine;
  ordered_json out = run_heading(run);
  out["stopped"] = run.stopped;
  if (!run.report) return out;
  const SimulationReport& r = *run.report;
  out["total_us"] = r.total_us;
  out["slowdown"] = ratio_of(r.total_us, r.bounds.compute_us);
  if (run.of_another_step) out["update_on_cpu"] = true;
  if (const StepBounds* bounds = bounds_of(run, report.bounds)) {
    const double least_us = bounds->of(r).step_us;
    out["bound"] = ratio_of(least_us, r.bounds.compute_us);
    out["to_bound"] = ratio_of(r.total_us, least_us);
  }
  if (!r.variants.empty()) out["variants"] = r.variants.size();
  if (!r.operations.empty()) out["reordered"] = planner::moved_operations(r.operations);
  out["compute_us"] = r.compute_us;
  out["recompute_us"] = r.recompute_us;
  out["codec_us"] = r.codec_us;
  out["stalls_us"] = {
      {"late_prefetch", r.stalls.late_prefetch_us}, {"fetch", r.stalls.fetch_us}, {"room", r.stalls.room_us}};
  for (std::size_t i = 0; i < r.links.size(); ++i)
    out["links"].push_back({{"name", machine.links[i].name},
                            {"in_bytes", r.links[i].in_bytes},
                            {"out_bytes", r.links[i].out_bytes},
                            {"in_busy_us", r.links[i].in_busy_us},
                            {"out_busy_us", r.links[i].out_busy_us}});
  for (std::size_t i = 0; i < r.tier_peak_bytes.size(); ++i)
    out["tiers"].push_back({{"name", machine.tiers[i].name}, {"peak_bytes", r.tier_peak_bytes[i]}});
  if (run.addresses)
    out["addresses"] = {{"needed_bytes", run.addresses->needed_bytes},
                        {"peak_bytes", run.addresses->peak_bytes},
                        {"capacity_bytes", machine.tiers[0].capacity_bytes},
                        {"fit", run.addresses->fit},
                        {"repeat", run.addresses->repeat}};
  return out;
}

ordered_json bounds_json(const PlanReport& report, std::uint64_t max_live) {
  ordered_json out{{"max_live_bytes", max_live}};
  if (report.machine == nullptr || report.input->trace == nullptr) return out;
  const planner::LowerBounds bounds = planner::lower_bounds(*report.input->trace, *report.machine);
  out["largest_op_bytes"] = bounds.largest_op_bytes;
  out["compute_us"] = bounds.compute_us;
  if (std::isfinite(bounds.transfer_us)) out["transfer_us"] = bounds.transfer_us;
  out["critical_path_us"] = bounds.critical_path_us;
  if (!report.bounds) return out;
  out["step_us"] = report.bounds->moving.step_us;
  out["step_finished"] = report.bounds->moving.finished;
  if (report.bounds->recomputing) out["recomputing_step_us"] = report.bounds->recomputing->step_us;
  return out;
}

ordered_json input_json(const PlanInput& input) {
  ordered_json out{
      {"name", input.instance.name}, {"format", input.format}, {"buffers", input.instance.buffers.size()}};
  if (!input.notes.empty()) out["notes"] = input.notes;
  if (input.trace == nullptr) return out;
  out["source"] = input.trace->source;
  out["ops"] = input.trace->ops.size();
  out["tensors"] = input.trace->tensors.size();
  out["reads_known"] = input.trace->reads_known;
  return out;
}

// "at the peak (operation 12, 'conv'): weights 1.2 GiB, activations 3.4 GiB": what lives then, largest first.
std::string peak_by_class(const wire::Trace& trace, bool exact_bytes) {
  if (trace.ops.empty()) return "";
  const planner::MemoryEstimate estimate = planner::estimate_memory(trace);
  std::vector<std::pair<std::uint64_t, std::string>> classes;
  for (std::size_t kind = 0; kind < estimate.at_peak.kind_bytes.size(); ++kind) {
    if (const std::uint64_t bytes = estimate.at_peak.kind_bytes.at(kind); bytes > 0)
      classes.emplace_back(bytes, planner::tensor_kind_name(static_cast<wire::TensorKind>(kind)));
  }
  if (estimate.at_peak.rounding_bytes > 0)
    classes.emplace_back(estimate.at_peak.rounding_bytes, "rounding to 512 bytes");
  std::sort(classes.begin(), classes.end(), std::greater<>());
  std::string text;
  for (const auto& [bytes, name] : classes)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, bytes_text(bytes, exact_bytes));
  return fmt::format("at the peak, operation {} ('{}'): {}\n", estimate.peak_op,
                     trace.ops[estimate.peak_op].name, text);
}

}  // namespace

std::string input_summary(const PlanInput& input, bool exact_bytes) {
  double sum = 0;
  for (const planner::Buffer& b : input.instance.buffers) sum += static_cast<double>(b.bytes);
  const std::string sizes = fmt::format(
      "{} in all, at most {} alive at once", bytes_text(static_cast<std::uint64_t>(sum), exact_bytes),
      bytes_text(planner::max_live_bytes(input.instance.buffers), exact_bytes));
  if (input.trace == nullptr)
    return fmt::format("{} ({}): {} lifetimes, {}\n", input.instance.name, input.format,
                       input.instance.buffers.size(), sizes);
  double time_us = 0;
  for (const wire::TraceOp& op : input.trace->ops) time_us += op.time_us;
  return fmt::format("{} ({}): {} operations of {}, {} tensors, {} buffers; {}\n{}", input.instance.name,
                     input.format, input.trace->ops.size(), seconds_text(time_us),
                     input.trace->tensors.size(), input.instance.buffers.size(), sizes,
                     peak_by_class(*input.trace, exact_bytes));
}

std::string plan_tables(const PlanReport& report, bool exact_bytes) {
  const TableStyle style{exact_bytes, true};
  std::string text = input_summary(*report.input, exact_bytes);
  for (const std::string& note : report.input->notes) text += "  " + note + "\n";
  if (!report.reuse.empty()) text.append("\n").append(placement_table(report, style));
  if (report.machine != nullptr) text.append("\n").append(swap_tables(report, style));
  return text + best_line(report, exact_bytes);
}

ordered_json plan_json(const PlanReport& report) {
  const std::uint64_t bound = planner::max_live_bytes(report.input->instance.buffers);
  ordered_json out{{"format", "terrace-plan"},           {"version", 1},
                   {"input", input_json(*report.input)}, {"bounds", bounds_json(report, bound)},
                   {"seed", report.limits.seed},         {"seconds_per_search", report.seconds_per_search}};
  if (report.limits.capacity_bytes != 0) out["capacity_bytes"] = report.limits.capacity_bytes;
  out["interrupted"] = report.interrupted;
  out["placements"] = ordered_json::array();
  for (const ReuseRun& run : report.reuse) out["placements"].push_back(json_of(run, bound));
  if (report.machine == nullptr) return out;
  out["machine"] = report.machine->name;
  out["steps"] = ordered_json::array();
  for (const SwapRun& run : report.swap) out["steps"].push_back(json_of(run, report));
  return out;
}

}  // namespace terrace::cli
