// One policy on one instance in a process of its own, so that its memory can be measured and a search that
// swallows the machine takes nobody along.
#pragma once

#include <string>

#include "tools/bench/planner/parts.h"

namespace terrace::bench {

struct ChildTask {
  std::string policy;
  std::string path;  // of a CSV or a trace
  double seconds = 10;
  std::uint64_t capacity_bytes = 0;
};

// What the child measured: "total_bytes", "bound_bytes", "seconds" (searching alone), "first_seconds" (until
// there was a plan), "peak_rss_bytes" (of the process, with what was read), "valid"; or "refused".
Json run_in_child(const ChildTask& task);

// The child's main(): `words` are what run_in_child() gave it.
int child_main(const std::vector<std::string>& words);

}  // namespace terrace::bench
