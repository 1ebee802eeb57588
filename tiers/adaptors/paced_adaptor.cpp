#include "tiers/adaptors/paced_adaptor.h"

#include <time.h>

namespace terrace::tiers {
namespace {

std::uint64_t now_in_ns() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

int PacedAdaptor::submit(const Transfer& transfer) noexcept {
  const double seconds = static_cast<double>(transfer.extent.bytes) / static_cast<double>(bytes_per_second_);
  const std::uint64_t due = now_in_ns() + static_cast<std::uint64_t>(seconds * 1e9);
  const int error = inner_.submit(transfer);
  while (error == 0 && now_in_ns() < due) continue;
  return error;
}

}  // namespace terrace::tiers
