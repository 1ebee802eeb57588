#include "tiers/adaptors/paced_adaptor.h"

#include "tiers/monotonic_clock.h"

namespace terrace::tiers {

int PacedAdaptor::submit(const Transfer& transfer) noexcept {
  const double seconds = static_cast<double>(transfer.extent.bytes) / static_cast<double>(bytes_per_second_);
  const std::uint64_t due = monotonic_ns() + static_cast<std::uint64_t>(seconds * 1e9);
  const int error = inner_.submit(transfer);
  while (error == 0 && monotonic_ns() < due) continue;
  return error;
}

}  // namespace terrace::tiers
