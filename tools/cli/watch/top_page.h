// What `terrace top` shows, as lines of text: pure, so that a test can read it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/cli/daemon/stall_causes.h"
#include "tools/cli/terminal/color.h"

namespace terrace::cli {

struct TopJob {
  nlohmann::json rates;  // a row of job_columns() as rates_of() gives it
  StallCauses causes;
  bool complete = true;  // no event was missed
};

struct TopState {
  std::vector<nlohmann::json> daemons;  // rows of status_columns()
  std::vector<TopJob> jobs;
  bool first = true;    // nothing to compare with yet: counters are totals, not rates
  std::string problem;  // shown instead of the tables
};

struct TopStyle {
  int columns = 80;
  int lines = 24;
  bool exact_bytes = false;
};

std::vector<std::string> top_page(const TopState& state, const TopStyle& style, const Painter& paint);

// "[######····]": `part` of `whole` in `width` characters; empty when the whole is not known.
std::string bar(double part, double whole, int width);

}  // namespace terrace::cli
