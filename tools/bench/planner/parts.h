// The sections of `terrace bench planner`: each measures one thing and returns a table.
//
// A section is JSON that people and programs read alike: "title", "columns" (key, heading, unit), "rows" with
// plain numbers, "notes". tables.cpp prints any of them as text or Markdown. A row that has a target
// has "met".
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "daemon/planner/reuse/instance.h"
#include "daemon/planner/simulate/simulator.h"

namespace terrace::bench {

using Json = nlohmann::ordered_json;

struct PlannerOptions {
  std::string data;        // the reference data's directory
  std::string minimalloc;  // MiniMalloc's own program; empty: not compared with
  bool quick = false;
  long rounds = 3;
  std::vector<long> seconds;                  // rising: when the section capacities says what is known
  wire::Order in_order = wire::Order::asked;  // of the ways back, whichever the policy says
};

Json measure_conformance(const PlannerOptions& options);
Json measure_random(const PlannerOptions& options);
Json measure_damage();
Json measure_minimalloc(const PlannerOptions& options);
Json measure_capacities(const PlannerOptions& options);
Json measure_large(const PlannerOptions& options);
Json measure_kineto(const PlannerOptions& options);
Json measure_g10(const PlannerOptions& options);
Json measure_g10_times(const PlannerOptions& options);
Json measure_g10_policies(const PlannerOptions& options);
Json measure_swaps(const PlannerOptions& options);
Json measure_recompute(const PlannerOptions& options);
Json measure_recompute_chains(const PlannerOptions& options);
Json measure_recompute_search(const PlannerOptions& options);
Json measure_simulator(const PlannerOptions& options);
Json measure_planning(const PlannerOptions& options);
Json measure_profiles(const PlannerOptions& options);

// "slowdown" by computing alone, "bound" of the same, and how far the one is from the other.
void add_slowdown(Json* row, const planner::SimulationReport& report, double bound_us);

// Units of columns: "text", "count", "bytes", "s", "ms", "ratio", "percent", "yes".
Json column(const char* key, const char* heading, const char* unit);
Json section(const char* title, std::vector<Json> columns);
// Instead of a table where something is missing.
Json skipped(const char* title, const std::string& why);

std::string as_text(const Json& section);
std::string as_markdown(const Json& section);

// Of a list with commas.
std::vector<std::string> words_of(const std::string& list);

// Takes an option such as --quick out of the command line, which has no value as Arguments expects of every
// one. True: it was there.
bool take_flag(const char* option, std::vector<char*>* words);

// What TERRACE_REFERENCE_DATA names, or ../shared/data of the checkout.
std::string default_data();
// What is wrong with what --data names, empty if nothing or none is named; a line on standard error where
// there are no data.
std::string wrong_data(const std::string& named);
void note_missing(const std::string& data);

// A file of the reference data, unpacked; nothing if it is not there.
std::optional<std::string> data_file(const PlannerOptions& options, const std::string& name);
// The names of the files of a folder that end in `suffix`, sorted.
std::vector<std::string> data_files(const PlannerOptions& options, const std::string& folder,
                                    const std::string& suffix);
// Ends the program with a message when what lies there is not what it should be.
planner::Instance instance_from(const std::string& name, const std::string& csv);

}  // namespace terrace::bench
