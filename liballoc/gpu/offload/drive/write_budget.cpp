#include "liballoc/gpu/offload/drive/write_budget.h"

#include <cerrno>

namespace terrace::liballoc::offload {

int WriteBudget::take(std::uint64_t bytes) {
  if (!is_leased_) return ledger_.take(bytes);
  if (taken_bytes_ > most_bytes_ || bytes > most_bytes_ - taken_bytes_) return EDQUOT;
  taken_bytes_ += bytes;
  return 0;
}

void WriteBudget::untake(std::uint64_t bytes) {
  if (is_leased_)
    taken_bytes_ -= bytes;
  else
    ledger_.untake(bytes);
}

}  // namespace terrace::liballoc::offload
