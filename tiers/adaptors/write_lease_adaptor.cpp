// See write_lease_adaptor.h.
#include "tiers/adaptors/write_lease_adaptor.h"

#include <cerrno>

namespace terrace::tiers {

// Here, and with it the destructor that deletes, which must not be in what the agent runs.
WriteLeaseAdaptor::WriteLeaseAdaptor(Tier& inner) noexcept : TierAdaptor(inner, "leased") {}

// While something is under way the caller's count may be behind ours; writes that failed are not in it.
void WriteLeaseAdaptor::set_lease(std::uint64_t written_bytes, std::uint64_t most_bytes) noexcept {
  if (written_bytes > begun_bytes_ || inner_.in_flight() == 0) begun_bytes_ = written_bytes;
  most_bytes_ = most_bytes;
}

int WriteLeaseAdaptor::submit(const Transfer& transfer) noexcept {
  if (transfer.direction == Direction::read) return inner_.submit(transfer);
  const std::uint64_t left = most_bytes_ - (begun_bytes_ < most_bytes_ ? begun_bytes_ : most_bytes_);
  if (transfer.extent.bytes > left) {
    most_bytes_ = begun_bytes_;
    return EDQUOT;
  }
  const int error = inner_.submit(transfer);
  if (error == 0) begun_bytes_ += transfer.extent.bytes;
  return error;
}

}  // namespace terrace::tiers
