#include "tiers/chain/occupants.h"

#include <cerrno>
#include <new>

#include "tiers/chain/units.h"

namespace terrace::tiers {

int Occupants::open(std::uint64_t capacity_bytes) noexcept {
  const auto units = static_cast<std::uint32_t>(capacity_bytes / unit_bytes);
  if (const int error = table_.map(units * sizeof(Row))) return error;
  rows_ = reinterpret_cast<Row*>(table_.data());  // zeroed: no extent begins anywhere
  units_ = units;
  return 0;
}

void Occupants::close() noexcept {
  table_.unmap();
  rows_ = nullptr;
  units_ = 0;
  oldest_ = newest_ = none;
}

void Occupants::add(const Extent& place, std::uint32_t name, std::uint32_t now) noexcept {
  const std::uint32_t unit = unit_of(place.offset);
  new (&rows_[unit]) Row{.since = now,
                         .bytes = static_cast<std::uint32_t>(place.bytes),
                         .name = name,
                         .older = newest_,
                         .newer = none};
  (newest_ == none ? oldest_ : rows_[newest_].newer) = unit;
  newest_ = unit;
}

void Occupants::unlink(std::uint32_t unit) noexcept {
  const Row& row = rows_[unit];
  (row.older == none ? oldest_ : rows_[row.older].newer) = row.newer;
  (row.newer == none ? newest_ : rows_[row.newer].older) = row.older;
}

std::uint32_t Occupants::at(std::uint64_t offset) const noexcept {
  std::uint32_t unit = unit_of(offset);
  if (unit >= units_) return none;
  while (rows_[unit].bytes == 0 && unit > 0) --unit;
  return offset < unit * unit_bytes + whole_units(rows_[unit].bytes) ? unit : none;
}

void Occupants::remove(const Extent& place) noexcept {
  const std::uint32_t end = unit_of(place.offset + whole_units(place.bytes));
  for (std::uint32_t unit = unit_of(place.offset); unit < end; ++unit) {
    const std::uint32_t first = at(unit * unit_bytes);
    if (first == none) continue;
    if (first == unit) {
      unlink(unit);
      rows_[unit].bytes = 0;
    } else {  // its end goes, the rest stays
      rows_[first].bytes = static_cast<std::uint32_t>((unit - first) * unit_bytes);
    }
  }
}

bool Occupants::check_invariants() const noexcept {
  std::uint32_t listed = 0;
  std::uint32_t before = none;
  for (std::uint32_t unit = oldest_; unit != none; unit = rows_[unit].newer, ++listed) {
    if (unit >= units_ || listed > units_ || rows_[unit].bytes == 0 || rows_[unit].older != before)
      return false;
    before = unit;
  }
  std::uint32_t begun = 0;
  for (std::uint32_t unit = 0; unit < units_; ++unit) begun += rows_[unit].bytes != 0 ? 1 : 0;
  return before == newest_ && begun == listed;
}

}  // namespace terrace::tiers
