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
// Several, separated by commas. With nvm- before it (nvm-write:3:EIO) a word is about the NVM before the
// drives; there is no nvm-slow, and nvm-pace keeps the processor busy as slow memory does. The doubles of
// tiers/ do the work; without the variable nothing is wrapped.
#pragma once

#include <cstddef>

#include "tiers/adaptors/failing_adaptor.h"
#include "tiers/adaptors/paced_adaptor.h"
#include "tiers/adaptors/slow_adaptor.h"
#include "tiers/tier.h"

namespace terrace::liballoc {

class FaultInjection {
 public:
  static constexpr const char* accepted =
      "read:N:ERROR, write:N:ERROR, reserve:N:ERROR with EIO, ENOSPC, ENODEV or EAGAIN, corrupt:N, lose:N, "
      "slow:Nms or pace:SIZE (a second), "
      "separated by commas; each but slow with nvm- before it for NVM";

  constexpr FaultInjection() = default;
  // Wraps `tier` as `spec` says of the drives; the wrapped tier, or nullptr when the text is not understood.
  // Call one of both, once.
  tiers::Tier* wrap(tiers::Tier* tier, const char* spec) { return wrap(tier, spec, false); }
  // The same by what it says of NVM.
  tiers::Tier* wrap_nvm(tiers::Tier* tier, const char* spec) { return wrap(tier, spec, true); }

 private:
  tiers::Tier* wrap(tiers::Tier* tier, const char* spec, bool is_nvm);
  bool apply(const char* word, std::size_t length, bool is_nvm, tiers::Tier** tier);
  bool damage(const char* text, tiers::Tier** tier);
  tiers::FailingAdaptor* failing(tiers::Tier** tier);
  bool slow(const char* text, tiers::Tier** tier);
  bool pace(const char* text, bool is_nvm, tiers::Tier** tier);
  bool make_slow(const tiers::SlowAdaptor::Speed& speed, tiers::Tier** tier);

  // Storage, so that a library without damage constructs and destroys nothing.
  alignas(tiers::FailingAdaptor) std::byte failing_storage_[sizeof(tiers::FailingAdaptor)] = {};
  alignas(tiers::SlowAdaptor) std::byte slow_storage_[sizeof(tiers::SlowAdaptor)] = {};
  alignas(tiers::PacedAdaptor) std::byte paced_storage_[sizeof(tiers::PacedAdaptor)] = {};
  tiers::FailingAdaptor* failing_ = nullptr;
  bool is_slow_ = false;
};

}  // namespace terrace::liballoc
