// The tensors of one step of a job: what is born in it, and what is there when it begins. Pure.
#pragma once

#include <cstdint>
#include <map>

#include "liballoc/wire/trace.h"
#include "tools/cli/timeline/seen_steps.h"

namespace terrace::cli {

class StepTensors {
 public:
  // Appends them to the trace's; those of the last of the like steps. All arguments are read here alone, but
  // for `history`.
  StepTensors(const Recording& recording, const History& history, const Roles& roles, const LikeSteps& like,
              wire::Trace* into);

  // Index into the trace's tensors, or no_object.
  std::uint32_t of(const Role& role) const;
  // Was written to the pool more often than its first leaving explains, so that the step changes it.
  bool is_updated(const Role& role) const;

 private:
  const History& history_;
  std::map<Role, std::uint32_t> of_;
  std::map<Role, std::uint64_t> writes_;  // to the pool, of what no step made
};

}  // namespace terrace::cli
