// The entries of a schedule for what is dropped and made again before the operations that need it.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "daemon/planner/simulate/gaps/lineage.h"

namespace terrace::planner {

class Remaking {
 public:
  // The lineage knows every gap that is added, as dropped, when add_to() is called.
  Remaking(const Lineage& lineage, std::uint32_t ops) : lineage_(lineage), ending_(ops) {}

  // Dropped when the gap begins, there again when it ends.
  void add(const Gap& gap);
  // Drops stand before everything else of their position, and making again behind.
  void add_to(std::vector<wire::ScheduleEntry>* entries);

 private:
  const Lineage& lineage_;
  std::vector<std::vector<Gap>> ending_;  // by operation
  std::vector<wire::ScheduleEntry> drops_;
  std::unordered_map<std::uint32_t, std::uint32_t> revived_;  // dead tensors: where they were made again last

  void drop(std::uint32_t tensor, std::uint32_t position);
  void revive(std::uint32_t tensor, std::uint32_t at);
};

}  // namespace terrace::planner
