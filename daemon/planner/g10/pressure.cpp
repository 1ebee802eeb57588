// Time above the line; see pressure.h.
#include "daemon/planner/g10/pressure.h"

#include <algorithm>

namespace terrace::planner::g10 {
namespace {

constexpr std::uint64_t all_bytes = std::uint64_t{1} << 62U;  // more than a trace may hold

std::uint64_t minus(std::uint64_t bytes) { return 0 - bytes; }

}  // namespace

Pressure::Pressure(const std::vector<std::uint64_t>& resident_bytes, const std::vector<double>& time,
                   std::uint64_t line_bytes)
    : time_(time),
      above_(time.size(), false),
      sums_(time.size() + 1, 0),
      line_bytes_(std::min(line_bytes, all_bytes - 1)) {
  std::vector<std::uint64_t> room(time.size(), minus(all_bytes));
  for (std::uint32_t op = 0; op < time.size(); ++op) {
    if (resident_bytes[op] <= line_bytes) continue;
    above_[op] = true;
    room[op] = minus(resident_bytes[op]);
    add(op, time[op]);
  }
  room_.reset(room);
}

void Pressure::add(std::uint32_t op, double time) {
  for (std::size_t i = std::size_t{op} + 1; i < sums_.size(); i += i & (0 - i)) sums_[i] += time;
}

double Pressure::sum(std::uint32_t end) const {
  double sum = 0;
  for (std::size_t i = end; i > 0; i -= i & (0 - i)) sum += sums_[i];
  return sum;
}

void Pressure::lower(std::uint32_t begin, std::uint32_t end, std::uint64_t bytes) {
  if (begin >= end) return;
  room_.add(begin, end, bytes);
  while (const auto op = room_.last_above(begin, end, minus(line_bytes_ + 1))) {
    room_.subtract(*op, *op + 1, all_bytes);
    above_[*op] = false;
    add(*op, -time_[*op]);
  }
}

void Pressure::relieve(const Relief& relief) {
  const auto ops = static_cast<std::uint32_t>(time_.size());
  lower(relief.begin, std::min(relief.end, ops), relief.bytes);
  if (relief.end > ops) lower(std::max(relief.begin, ops) - ops, relief.end - ops, relief.bytes);
}

}  // namespace terrace::planner::g10
