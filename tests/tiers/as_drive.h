// A tier in memory that says that it is a drive: what lies there is no DRAM of the job's.
#pragma once

#include "tiers/adaptors/adaptor.h"

namespace terrace::tiers::test {

class AsDrive final : public TierAdaptor {
 public:
  explicit AsDrive(Tier& inner) noexcept : TierAdaptor(inner, "drive") {}
  Medium medium_of(std::uint64_t) const noexcept override { return Medium::drive; }
  std::uint64_t bytes_on(Medium medium) const noexcept override {
    return medium == Medium::drive ? space().used_bytes : 0;
  }
};

}  // namespace terrace::tiers::test
