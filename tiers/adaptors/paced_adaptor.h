// Makes a tier as slow as slow memory: who moves the bytes is busy with it for as long as they take, as a
// processor is that loads and stores them.
//
// Unlike a slow device (slow_adaptor.h) nothing goes on meanwhile and nothing is waited for: a transfer that
// the wrapped tier finishes in submit() is finished in submit(), later.
#pragma once

#include <cstdint>

#include "tiers/adaptors/adaptor.h"
#include "tiers/monotonic_clock.h"

namespace terrace::tiers {

class PacedAdaptor final : public TierAdaptor {
 public:
  // `bytes_per_second` is not 0.
  PacedAdaptor(Tier& inner, std::uint64_t bytes_per_second) noexcept
      : TierAdaptor(inner, "paced"), bytes_per_second_(bytes_per_second) {}

  int submit(const Transfer& transfer) noexcept override {
    const double seconds =
        static_cast<double>(transfer.extent.bytes) / static_cast<double>(bytes_per_second_);
    const std::uint64_t due = monotonic_ns() + static_cast<std::uint64_t>(seconds * 1e9);
    const int error = inner_.submit(transfer);
    while (error == 0 && monotonic_ns() < due) continue;
    return error;
  }

 private:
  const std::uint64_t bytes_per_second_;
};

}  // namespace terrace::tiers
