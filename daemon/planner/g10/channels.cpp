// The tables of promised bandwidth; see channels.h.
#include "daemon/planner/g10/channels.h"

#include <algorithm>

namespace terrace::planner::g10 {
namespace {

std::int64_t less(std::int64_t bytes, double moved) {
  return static_cast<std::int64_t>(static_cast<double>(bytes) - moved);
}

}  // namespace

Direction::Direction(const std::vector<double>& op_us, double ssd_rate, double link_rate)
    : ssd_(op_us.size()), link_(op_us.size()) {
  for (std::size_t op = 0; op < op_us.size(); ++op) {
    ssd_[op].capacity = ssd_rate * op_us[op];
    link_[op].capacity = link_rate * op_us[op];
  }
}

std::uint32_t Direction::end_of(Over over, std::uint64_t bytes, std::uint32_t from) const {
  const auto& slots = this->slots(over);
  auto left = static_cast<std::int64_t>(bytes);
  std::uint32_t op = from;
  for (; op + 1 < slots.size(); ++op) {
    if (left > 0 && !slots[op].full) left = less(left, slots[op].capacity - slots[op].used);
    if (left <= 0) break;
  }
  return op;
}

std::uint32_t Direction::start_of(Over over, std::uint64_t bytes, std::uint32_t needed) const {
  const auto& slots = this->slots(over);
  auto left = static_cast<std::int64_t>(bytes);
  std::uint32_t op = needed - 1;
  for (; op > 0; --op) {
    if (left > 0 && !slots[op].full) left = less(left, slots[op].capacity - slots[op].used);
    if (left <= 0) break;
  }
  return op;
}

bool Direction::ssd_crowded(std::uint32_t from, std::uint32_t to) const {
  return std::all_of(ssd_.begin() + from, ssd_.begin() + to, [](const Slot& slot) { return slot.full; });
}

std::int64_t Direction::reserve_ssd(std::int64_t bytes, std::uint32_t op) {
  Slot& ssd = ssd_[op];
  Slot& link = link_[op];
  if (ssd.full) return bytes;
  const double rest = ssd.capacity - ssd.used;
  const bool closes = static_cast<double>(bytes) + ssd.used > ssd.capacity;
  link.used += closes ? rest : static_cast<double>(bytes);
  link.full = link.full || link.used >= link.capacity;
  if (!closes) ssd.used += static_cast<double>(bytes);
  if (!closes) return 0;
  ssd.close();
  return less(bytes, rest);
}

// Traffic with the host eats into the SSD's share once the rest of the link is used.
std::int64_t Direction::reserve_link(std::int64_t bytes, std::uint32_t op) {
  Slot& ssd = ssd_[op];
  Slot& link = link_[op];
  if (link.full) return bytes;
  if (static_cast<double>(bytes) + link.used > link.capacity) {
    const double rest = link.capacity - link.used;
    link.close();
    ssd.close();
    return less(bytes, rest);
  }
  link.used += static_cast<double>(bytes);
  const double beside_ssd = link.capacity - ssd.capacity;
  if (link.used < beside_ssd) return 0;
  ssd.used += link.used - beside_ssd;
  if (ssd.used >= ssd.capacity) ssd.close();
  return 0;
}

void Direction::reserve(Over over, std::uint64_t bytes, std::uint32_t from) {
  auto left = static_cast<std::int64_t>(bytes);
  for (std::uint32_t op = from; op < ssd_.size() && left > 0; ++op) {
    left = over == Over::ssd ? reserve_ssd(left, op) : reserve_link(left, op);
  }
}

}  // namespace terrace::planner::g10
