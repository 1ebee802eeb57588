// The machine that a recorded job ran on, as far as the recording tells: DRAM, its pool, and how fast data
// goes between them. Pure.
#pragma once

#include <string>

#include "daemon/planner/machine.h"
#include "tools/cli/timeline/recording.h"

namespace terrace::cli {

struct JobMachine {
  planner::Machine machine;  // tiers "dram" and "pool", both without limit
  std::string about;         // which speeds it has, and where they are from
};

// A direction's speed is the fastest quarter of a second of the recording, which is no more than the drive
// can. Where too little went that way, that of the SSD of the built-in machine a100-ssd. Frames that stayed
// in DRAM are no tier here.
JobMachine job_machine(const Recording& recording);

}  // namespace terrace::cli
