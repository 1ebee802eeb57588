// Drops one content after the other, each at its price for the whole.
//
//     block input ──▶ a ──▶ b ──▶ c         b and c are dropped, and each is made again from a;
//                                           to drop a as well makes b and c dearer, too
//
// What a content costs that is made again depends on what else is dropped: its own chain of operations begins
// further back, and so do those of all that rest on it. Without the second part, the inputs on which many
// chains rest look as cheap as anything else, and once they are gone no chain is short. (Capuchin's MSPS adds
// the first part alone: Peng et al., ASPLOS'20, section 4.4.)
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/simulate/gaps/lineage.h"

namespace terrace::planner {

class Dropping {
 public:
  // Nothing is dropped yet in `lineage`, which must outlive it.
  Dropping(Lineage& lineage, std::size_t tensors) : lineage_(lineage), resting_on_(tensors) {}

  // Drops it, if all that is dropped can still be made again, and that costs at most `most_us` more than
  // before. Says whether it did.
  bool drop(const Gap& gap, double most_us);

 private:
  struct Dropped {
    Gap gap;
    double price_us = 0;
  };

  std::vector<std::uint32_t> dearer_with(const Gap& gap) const;
  void note(std::uint32_t index);

  Lineage& lineage_;
  std::vector<Dropped> dropped_;
  std::vector<std::vector<std::uint32_t>> resting_on_;  // by tensor: of dropped_, perhaps no longer
};

}  // namespace terrace::planner
