// The entries of a schedule for what is dropped and made again before the operations that need it.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "daemon/planner/simulate/gaps/lineage.h"

namespace terrace::planner {

// Bytes in tier 0 by operation, and how many may be there; and the lineage that then knows what is held.
struct HoldingRoom {
  const wire::Trace& trace;
  Lineage& lineage;
  Residency residency;
  std::uint64_t limit_bytes = 0;
};

class Remaking {
 public:
  // The lineage knows every gap that is added, as dropped, when add_to() is called. With `room`, what was
  // made again on the way to something stays, as far as there is room, until it is needed again: then it is
  // not made once more.
  Remaking(const Lineage& lineage, std::uint32_t ops, HoldingRoom* room = nullptr)
      : lineage_(lineage), ending_(ops), room_(room) {}

  // Dropped when the gap begins, there again when it ends.
  void add(const Gap& gap);
  // Stays beyond its tensor's last use, until before operation `until`; the lineage holds it that long.
  void add_tail(std::uint32_t tensor, std::uint32_t until) { revived_[tensor] = until; }
  // Drops stand before everything else of their position, and making again behind.
  void add_to(std::vector<wire::ScheduleEntry>* entries);

 private:
  const Lineage& lineage_;
  std::vector<std::vector<Gap>> ending_;  // by operation
  HoldingRoom* room_;
  std::vector<wire::ScheduleEntry> drops_;
  // Where tensors were there last: dead ones, made again on the way or held until there, and those made again
  // on the way whose gap goes on.
  std::unordered_map<std::uint32_t, std::uint32_t> revived_, passing_;

  void drop(std::uint32_t tensor, std::uint32_t position);
  void revive(std::uint32_t tensor, std::uint32_t at);
  std::vector<Lineage::Again> again_at(std::uint32_t at);
  bool hold(std::uint32_t tensor, std::uint32_t from, std::uint32_t at);
  void pass(std::uint32_t tensor);
};

}  // namespace terrace::planner
