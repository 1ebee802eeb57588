// TERRACE_FAULT: damage on demand, so that what happens when a device fails is tested in the real library.
//
//   read:5:EIO        the 5th and every later read fails
//   write:3:ENOSPC    likewise for writes
//   reserve:4:ENOSPC  likewise for reservations
//   corrupt:2         one bit of the 2nd read is wrong
//   slow:20ms         every transfer takes that long
//   pace:400M        all transfers together move so many bytes a second; not beside slow
//   lose:10           the device is gone after 10 writes
//
// Several, separated by commas. The doubles of tiers/ do the work; without the variable nothing is wrapped.
#pragma once

#include <cstddef>

#include "tiers/adaptors/failing_adaptor.h"
#include "tiers/adaptors/slow_adaptor.h"
#include "tiers/tier.h"

namespace terrace::liballoc {

class FaultInjection {
 public:
  static constexpr const char* accepted =
      "read:N:ERROR, write:N:ERROR, reserve:N:ERROR with EIO, ENOSPC, ENODEV or EAGAIN, corrupt:N, lose:N, "
      "slow:Nms or pace:SIZE (a second), "
      "separated by commas";

  constexpr FaultInjection() = default;
  // Wraps `tier` as `spec` says; the wrapped tier, or nullptr when the text is not understood. Call once.
  tiers::Tier* wrap(tiers::Tier* tier, const char* spec);

 private:
  bool apply(const char* word, std::size_t length, tiers::Tier** tier);
  tiers::FailingAdaptor* failing(tiers::Tier** tier);
  bool slow(const char* text, tiers::Tier** tier);
  bool pace(const char* text, tiers::Tier** tier);
  bool make_slow(const tiers::SlowAdaptor::Speed& speed, tiers::Tier** tier);

  // Storage, so that a library without damage constructs and destroys nothing.
  alignas(tiers::FailingAdaptor) std::byte failing_storage_[sizeof(tiers::FailingAdaptor)] = {};
  alignas(tiers::SlowAdaptor) std::byte slow_storage_[sizeof(tiers::SlowAdaptor)] = {};
  tiers::FailingAdaptor* failing_ = nullptr;
  bool is_slow_ = false;
};

}  // namespace terrace::liballoc
