// What policies look at. Of the runs they change only the order in which they leave; of the accounts, what
// they count themselves. Belongs to who holds the gate.
#pragma once

#include "liballoc/paging/accounts.h"
#include "liballoc/paging/memory/memory_budget.h"
#include "liballoc/paging/memory/staging.h"
#include "liballoc/paging/runs/block_table.h"
#include "liballoc/paging/runs/run_table.h"
#include "liballoc/paging/standing.h"
#include "liballoc/paging/transfers/extents.h"
#include "liballoc/paging/transfers/operations.h"
#include "liballoc/paging/waiting_line.h"

namespace terrace::liballoc {

struct PolicyParts {
  RunTable& runs;
  const BlockTable& blocks;
  const Staging& staging;
  const MemoryBudget& budget;
  const Extents& extents;
  const OperationTable& operations;
  const WaitingLine& line;
  const Standing& standing;
  Accounts& accounts;
};

}  // namespace terrace::liballoc
