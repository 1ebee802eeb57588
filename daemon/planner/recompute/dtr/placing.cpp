#include "daemon/planner/recompute/dtr/placing.h"

namespace terrace::planner::recompute {
namespace {

double cost_per_byte_of(const Step& step) {
  std::uint64_t bytes = 0;
  for (const Operation& op : step.operations) bytes += op.made_bytes;
  return bytes == 0 ? 0 : static_cast<double>(step.cost_ns) / static_cast<double>(bytes);
}

}  // namespace

Placing::Placing(const Step& step, std::uint64_t budget_bytes, bool partitioned)
    : step_(step),
      addresses_(budget_bytes - step.constant_bytes),
      partitioned_(partitioned),
      cost_per_byte_(cost_per_byte_of(step)),
      begin_(step.storages.size()) {}

bool Placing::take(std::uint32_t operation, std::uint32_t result, bool again) {
  const bool workspace = result == nothing;
  const std::uint64_t bytes =
      workspace ? step_.operations[operation].workspace_bytes : step_.storages[result].bytes;
  if (bytes == 0) return true;
  const bool passes = workspace || again;
  const auto begin = addresses_.take(bytes, passes ? Addresses::no_storage : result, end_for(operation));
  if (!begin) return false;
  if (passes) passing_.push_back(*begin);
  if (!passes) begin_[result] = *begin;
  log_.push_back(*begin);
  return true;
}

void Placing::end_run() {
  for (const std::uint64_t begin : passing_) addresses_.give_back(begin);
  passing_.clear();
}

void Placing::evicted(std::uint32_t storage) {
  if (step_.storages[storage].bytes > 0) addresses_.give_back(begin_[storage]);
}

End Placing::end_for(std::uint32_t operation) const {
  const Operation& op = step_.operations[operation];
  const bool expensive =
      static_cast<double>(op.cost_ns) > cost_per_byte_ * static_cast<double>(op.made_bytes);
  return partitioned_ && expensive ? End::high : End::low;
}

}  // namespace terrace::planner::recompute
