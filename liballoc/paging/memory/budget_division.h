// Of what a budget is taken: the codec's memory, runs that are kept compressed in DRAM, and the data, which
// has the rest. Each budget says anew whether there is room for the first two.
//
// Belongs to who holds the gate. Takes the codec's memory when it is switched on and gives it back when it is
// switched off; nothing else here can fail.
#pragma once

#include <cstdint>

#include "liballoc/base/options.h"
#include "liballoc/paging/memory/memory_budget.h"
#include "liballoc/paging/runs/run_table.h"
#include "liballoc/paging/transfers/extents.h"
#include "liballoc/paging/transfers/run_codec.h"

namespace terrace::liballoc {

class BudgetDivision {
 public:
  struct Parts {
    RunTable& runs;
    MemoryBudget& budget;
    Extents& extents;
    RunCodec& codec;
  };
  constexpr explicit BudgetDivision(const Parts& parts) : parts_(parts) {}

  // How much of each budget may hold compressed runs, where the tier has a place for them. Before the first
  // divide().
  void keep_compressed(const CompressedSize& size) { compressed_ = size; }
  // What was asked for; says so where `budget_bytes` has no room for it. Before the first divide().
  void compress(Compression compression, std::uint64_t budget_bytes);
  // Of a new budget, in bytes. The tier is there.
  void divide(std::uint64_t bytes);
  // As compressed runs take more or less than before.
  void follow_compressed();

 private:
  void fit_codec(std::uint64_t runs);

  Parts parts_;
  Compression compression_ = Compression::off;  // as was asked for
  CompressedSize compressed_;
  std::uint32_t followed_runs_ = 0;  // that compressed runs took
};

}  // namespace terrace::liballoc
