// A chosen point of a budget curve: the budget that a job is to run with, and what its step should then take.
// `terrace plan --budget-curve --point SIZE --out FILE` writes it, `terrace run --plan FILE` reads it.
//
// The file may come from anybody: what is read of it is checked, and all that it can change in a job is the
// budget and the policy. Format: docs/formats/plan.md, `terrace-plan-point` version 1.
#pragma once

#include <cstdint>
#include <string>

#include "liballoc/wire/result.h"

namespace terrace::cli {

inline constexpr const char* point_format = "terrace-plan-point";

struct PlanPoint {
  std::string trace, machine, policy;  // by name
  std::string program;                 // of the job that was recorded; empty: not known
  std::uint64_t budget_bytes = 0;
  std::uint64_t live_bytes = 0;  // that the step holds at most at once
  double step_us = 0;            // predicted
  double compute_us = 0;         // of it, with no wait and nothing computed again
  double moved_bytes = 0;        // in a step, both directions
};

std::string point_json(const PlanPoint& point);
// What the text holds, or why it is no point and what would be one.
Result<PlanPoint> parse_point(const std::string& text);
// Likewise of a file, packed or not; messages name it.
Result<PlanPoint> load_point(const std::string& path);

// Why the point says nothing about `command`, the first word of a command line: its program is another one.
// Empty where it is the same, or where that cannot be known: the point names no program, or the command is a
// script, a shell, or starts others by profession (env, timeout, mpirun).
std::string other_program(const PlanPoint& point, const std::string& command);

}  // namespace terrace::cli
