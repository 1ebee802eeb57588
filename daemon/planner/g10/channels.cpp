// The tables of promised bandwidth; see channels.h.
#include "daemon/planner/g10/channels.h"

#include <algorithm>
#include <cmath>

namespace terrace::planner::g10 {
namespace {

constexpr double most_left = 0x1p62;

std::int64_t less(std::int64_t bytes, double moved) {
  return static_cast<std::int64_t>(static_cast<double>(bytes) - moved);
}

std::uint64_t whole_bytes(double left) {
  return static_cast<std::uint64_t>(std::ceil(std::clamp(left, 0.0, most_left)));
}

}  // namespace

SlotTree Direction::tree_of(const Slots& slots) {
  std::vector<std::uint64_t> left;
  left.reserve(slots.size());
  for (const Slot& slot : slots) left.push_back(whole_bytes(slot.left()));
  return SlotTree(left);
}

Direction::Direction(const std::vector<double>& op_us, double ssd_rate, double link_rate)
    : ssd_(op_us.size()), link_(op_us.size()), ssd_left_({}), link_left_({}) {
  for (std::size_t op = 0; op < op_us.size(); ++op) {
    ssd_[op].capacity = ssd_rate * op_us[op];
    link_[op].capacity = link_rate * op_us[op];
  }
  ssd_left_ = tree_of(ssd_);
  link_left_ = tree_of(link_);
}

std::uint32_t Direction::end_of(Over over, std::uint64_t bytes, std::uint32_t from) const {
  const auto last = static_cast<std::uint32_t>(ssd_.size() - 1);
  return bytes == 0 ? from : std::min(left(over).forwards(from, bytes).value_or(last), last);
}

std::uint32_t Direction::start_of(Over over, std::uint64_t bytes, std::uint32_t needed) const {
  return bytes == 0 ? needed - 1 : left(over).backwards(needed, bytes).value_or(0);
}

bool Direction::ssd_crowded(std::uint32_t from, std::uint32_t to) const {
  const auto open = ssd_left_.forwards(from, 1);
  return !open || *open >= to;
}

std::int64_t Direction::reserve_ssd(std::int64_t bytes, std::uint32_t op) {
  Slot& ssd = ssd_[op];
  Slot& link = link_[op];
  const double rest = ssd.left();
  const bool closes = static_cast<double>(bytes) + ssd.used > ssd.capacity;
  link.used += closes ? rest : static_cast<double>(bytes);
  if (!closes) ssd.used += static_cast<double>(bytes);
  if (!closes) return 0;
  ssd.close();
  return less(bytes, rest);
}

// Traffic with the host eats into the SSD's share once the rest of the link is used.
std::int64_t Direction::reserve_link(std::int64_t bytes, std::uint32_t op) {
  Slot& ssd = ssd_[op];
  Slot& link = link_[op];
  if (static_cast<double>(bytes) + link.used > link.capacity) {
    const double rest = link.left();
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
  auto rest = static_cast<std::int64_t>(bytes);
  for (auto op = left(over).forwards(from, 1); op && rest > 0; op = left(over).forwards(*op + 1, 1)) {
    rest = over == Over::ssd ? reserve_ssd(rest, *op) : reserve_link(rest, *op);
    ssd_left_.set(*op, whole_bytes(ssd_[*op].left()));
    link_left_.set(*op, whole_bytes(link_[*op].left()));
  }
}

}  // namespace terrace::planner::g10
