// Lets a tier be written so far and no further: what would pass the lease is refused with EDQUOT, until a
// longer one is given. Reads pass.
//
// After a refusal nothing passes until the next lease, however small: what is refused at times and taken at
// times would look like a tier that comes and goes. Counted is what was submitted, so that the lease is kept
// whatever becomes of it.
#pragma once

#include <cstdint>

#include "tiers/adaptors/adaptor.h"

namespace terrace::tiers {

class WriteLeaseAdaptor final : public TierAdaptor {
 public:
  static constexpr std::uint64_t no_lease = UINT64_MAX;  // as much as one likes

  explicit WriteLeaseAdaptor(Tier& inner) noexcept;

  // By the caller's own count, which says `written_bytes` now and may go up to `most_bytes`. Serialised with
  // submit() and poll().
  void set_lease(std::uint64_t written_bytes, std::uint64_t most_bytes) noexcept;
  int submit(const Transfer& transfer) noexcept override;

 private:
  std::uint64_t begun_bytes_ = 0;
  std::uint64_t most_bytes_ = no_lease;
};

}  // namespace terrace::tiers
