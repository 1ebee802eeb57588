// How much of each direction of the link and of the SSD a plan has promised, per operation.
//
// What goes over the SSD goes over the link too. Four tables in the artifact: two of these, in and out. A
// transfer takes whole bytes of an operation, rounded up where rates are not whole: the artifact's
// truncations, which decide ties. Every question and every operation that a promise fills take O(log n).
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/g10/slot_tree.h"

namespace terrace::planner::g10 {

class Direction {
 public:
  // Bytes per microsecond; the time of each operation.
  Direction(const std::vector<double>& op_us, double ssd_rate, double link_rate);

  enum class Over : std::uint8_t { ssd, link };

  // The operation in which a transfer of `bytes` that starts at `from` would end; the last one if it would
  // not end before.
  std::uint32_t end_of(Over over, std::uint64_t bytes, std::uint32_t from) const;
  // The operation at which a transfer would have to start so that it ends before `needed` (at least 1).
  std::uint32_t start_of(Over over, std::uint64_t bytes, std::uint32_t needed) const;
  // Whether nothing is left of the SSD in [from, to).
  bool ssd_crowded(std::uint32_t from, std::uint32_t to) const;
  void reserve(Over over, std::uint64_t bytes, std::uint32_t from);

 private:
  struct Slot {
    double capacity = 0;
    double used = 0;
    double left() const { return capacity - used; }
    void close() { used = capacity; }
  };
  using Slots = std::vector<Slot>;

  static SlotTree tree_of(const Slots& slots);
  const SlotTree& left(Over over) const { return over == Over::ssd ? ssd_left_ : link_left_; }
  std::int64_t reserve_ssd(std::int64_t bytes, std::uint32_t op);
  std::int64_t reserve_link(std::int64_t bytes, std::uint32_t op);

  Slots ssd_;
  Slots link_;
  SlotTree ssd_left_;
  SlotTree link_left_;
};

}  // namespace terrace::planner::g10
