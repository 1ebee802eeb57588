// The parts of `terrace bench policies`: groups of cases, one table for each, and a picture of all tables.
//
// A case is one step on one machine. A group is what may be averaged: the same kind of steps under the same
// kind of budget. Each is a section (planner/parts.h) whose rows are policies, plus "cases" with
// every single figure.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/planner/parts.h"
#include "tools/plot/canvas.h"

namespace terrace::bench {

struct PolicyCase {
  std::string workload;
  wire::Trace trace;
  planner::Machine machine;
};

struct PolicyGroup {
  std::string name;  // of --only
  std::string title;
  std::vector<PolicyCase> cases;
  std::string missing;  // why there are no cases
  std::string note;     // what a reader of its table has to know; may be empty
};

// The names of all groups, in order; those of recomputation alone are the last that run unasked.
std::vector<std::string> policy_group_names();
// Whether the group runs only where it is named.
bool is_by_name(const std::string& group);

// One group, by its name. With `quick` one case of it.
PolicyGroup policy_group(const PlannerOptions& options, const std::string& name);

// Every policy on every case of the group, judged; a group of recomputation alone by the policies for that.
Json measure_group(const PlannerOptions& options, const PolicyGroup& group);

// AutoTM, Sentinel and ours on two memories, by the fast one's share of a step's peak; no group like the
// others.
inline constexpr const char* memories_group = "memories";
Json measure_memories(const PlannerOptions& options);

// What a plan of ours loses when operations take other times than it was made for, and what changing it
// costs.
inline constexpr const char* drift_group = "drift";
Json measure_drift(const PlannerOptions& options);

// Our plans that move and recompute beside the best ones that do one of both.
inline constexpr const char* together_group = "together";
Json measure_together(const PlannerOptions& options);

// PREFIX.svg and PREFIX.png, or why not: of each policy the mean and the worst slowdown, and the bound;
// below, what measure_memories() answered, unless it is null.
std::string plot_groups(const std::string& prefix, const std::vector<Json>& sections, const Json& memories);

// That lower part, in pixels: draws into `width` from `top` downwards.
double memories_plot_height();
void draw_memories(plot::Canvas& canvas, double top, double width, const Json& section);

}  // namespace terrace::bench
