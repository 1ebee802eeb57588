// Idle intervals; see intervals.h.
#include "daemon/planner/g10/intervals.h"

#include <algorithm>

namespace terrace::planner::g10 {
namespace {

Interval between(std::uint32_t tensor, std::uint32_t start, std::uint32_t end) {
  Interval interval;
  interval.tensor = tensor;
  interval.start = start;
  interval.end = end;
  interval.looped = end < start;
  return interval;
}

std::vector<std::vector<std::uint32_t>> uses(const Workload& workload) {
  std::vector<std::vector<std::uint32_t>> found(workload.tensors.size());
  for (std::uint32_t op = 0; op < workload.kernels.size(); ++op) {
    for (const std::uint32_t tensor : workload.kernels[op].needs) {
      if (workload.tensors[tensor].global || workload.tensors[tensor].alive(op)) found[tensor].push_back(op);
    }
  }
  return found;
}

}  // namespace

std::vector<Interval> idle_intervals(const Workload& workload, const std::vector<double>& begin_us) {
  const auto used = uses(workload);
  const auto ops = static_cast<std::uint32_t>(workload.kernels.size());
  std::vector<Interval> intervals;
  for (std::uint32_t tensor = 0; tensor < used.size(); ++tensor) {
    const auto& at = used[tensor];
    for (std::size_t i = 0; i + 1 < at.size(); ++i) {
      if (at[i + 1] > at[i] + 1) intervals.push_back(between(tensor, at[i] + 1, at[i + 1]));
    }
    if (!workload.tensors[tensor].global || at.empty()) continue;
    const std::uint32_t start = (at.back() + 1) % ops;
    if (start != at.front()) intervals.push_back(between(tensor, start, at.front()));
  }
  for (Interval& interval : intervals) {
    const std::uint32_t end = interval.end + (interval.looped ? ops : 0);
    interval.time_us = begin_us[end] - begin_us[interval.start];
    interval.bytes = workload.tensors[interval.tensor].bytes;
  }
  return intervals;
}

std::vector<double> begin_times(const Workload& workload, const G10Machine& machine) {
  std::vector<double> times{0};
  for (std::uint32_t iteration = 0; iteration < 2; ++iteration) {
    for (const Kernel& kernel : workload.kernels) {
      times.push_back(times.back() + static_cast<double>(kernel.cycles) / (machine.gpu_ghz * 1000));
    }
  }
  return times;
}

std::uint32_t allocation_op(const Tensor& tensor, const std::vector<double>& begin_us,
                            const G10Machine& machine) {
  const double start =
      begin_us[tensor.birth] - static_cast<double>(tensor.bytes) * machine.malloc_us_per_byte;
  const auto after = std::upper_bound(begin_us.begin(), begin_us.begin() + tensor.birth, start);
  return after == begin_us.begin() ? 0 : static_cast<std::uint32_t>(after - begin_us.begin() - 1);
}

}  // namespace terrace::planner::g10
