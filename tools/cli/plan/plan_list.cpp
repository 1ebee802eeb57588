#include "tools/cli/plan/plan_list.h"

#include <fmt/format.h>

#include <array>

#include "daemon/planner/reuse/instance.h"
#include "daemon/planner/simulate/machines.h"
#include "daemon/planner/simulate/policies/zero_offload.h"
#include "daemon/planner/simulate/simulator.h"
#include "tools/cli/base/format.h"
#include "tools/cli/terminal/table.h"

namespace terrace::cli {

using nlohmann::json;

namespace {

std::string tiers_text(const planner::Machine& machine) {
  std::string text;
  for (const planner::Tier& tier : machine.tiers)
    text += fmt::format(
        "{}{} {}{}", text.empty() ? "" : ", ", tier.name,
        tier.capacity_bytes == planner::unlimited_bytes ? "without limit" : bytes_text(tier.capacity_bytes),
        tier.paged ? " in pages" : "");
  return text;
}

// Rates of links are powers of ten, as their makers give them.
std::string links_text(const planner::Machine& machine) {
  std::string text;
  for (const planner::Link& link : machine.links)
    text += fmt::format("{}{} {:.3g} GB/s in, {:.3g} out", text.empty() ? "" : "; ", link.name,
                        link.in_bytes_per_second / 1e9, link.out_bytes_per_second / 1e9);
  return text;
}

}  // namespace

std::string policy_table() {
  constexpr std::array columns{
      Column{"policy", "POLICY", Kind::text}, Column{"decides", "DECIDES", Kind::text},
      Column{"family", "FAMILY", Kind::text}, Column{"source", "SOURCE", Kind::text}};
  Rows rows;
  for (const auto& p : planner::reuse_policies())
    rows.push_back(
        {{"policy", p.name}, {"decides", "addresses"}, {"family", p.family}, {"source", p.source}});
  for (const auto& p : planner::swap_policies())
    rows.push_back({{"policy", p.name}, {"decides", "moves"}, {"family", p.family}, {"source", p.source}});
  for (const auto& [name, source] :
       {std::pair{"NAME+cdma", "NAME's moves, all that is sparse compressed; for each NAME that plans moves"},
        {"NAME+cswap", "NAME's moves, compressed where it is predicted to pay"},
        {"NAME+gist", "NAME's plan for a step whose sparse tensors rest encoded in the first tier"}})
    rows.push_back({{"policy", name}, {"decides", "moves"}, {"family", "compressing"}, {"source", source}});
  for (const auto& p : planner::update_policies())
    rows.push_back(
        {{"policy", p.name}, {"decides", "the update"}, {"family", p.family}, {"source", p.source}});
  return render(Columns(columns.begin(), columns.end()), rows, {});
}

std::string machine_table() {
  constexpr std::array columns{Column{"machine", "MACHINE", Kind::text}, Column{"tiers", "TIERS", Kind::text},
                               Column{"links", "LINKS", Kind::text}};
  Rows rows;
  for (const std::string& name : planner::built_in_machine_names()) {
    const planner::Machine machine = *planner::built_in_machine(name);
    rows.push_back({{"machine", name}, {"tiers", tiers_text(machine)}, {"links", links_text(machine)}});
  }
  return render(Columns(columns.begin(), columns.end()), rows, {});
}

}  // namespace terrace::cli
