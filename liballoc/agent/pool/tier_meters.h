// A meter on each tier below DRAM (tiers/adaptors/meter_adaptor.h), and the words in which its figures go to
// the daemon: for `terrace tiers`.
//
// No allocation, no clock but the meters'. Ownership: the tiers outlive the meters, which are nobody's to
// destroy. put_on() by who opens the tiers; the rest by any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <new>

#include "liballoc/wire/segment.h"
#include "tiers/adaptors/meter_adaptor.h"

namespace terrace::liballoc {

// Four words from `first` on: bytes read and the time that they took, then the same of what was written.
inline void put_speeds(const tiers::TierSpeeds& speeds, wire::Stat first, wire::JobStats* out) {
  const std::uint64_t words[] = {speeds.read_bytes, speeds.read_ns, speeds.write_bytes, speeds.write_ns};
  const auto begin = static_cast<std::uint32_t>(first);
  for (std::uint32_t i = 0; i < std::size(words); ++i) out->set(static_cast<wire::Stat>(begin + i), words[i]);
}

class TierMeters {
 public:
  constexpr TierMeters() = default;

  // The tier with its meter, whose figures go to the words of `first`. At most three.
  tiers::Tier* put_on(tiers::Tier* tier, wire::Stat first) {
    Place& place = places_[count_++];
    place.meter = new (place.storage) tiers::MeterAdaptor(*tier);
    place.first = first;
    return place.meter;
  }
  void forget() { count_ = 0; }
  void publish(wire::JobStats* out) const {
    for (std::size_t i = 0; i < count_; ++i) put_speeds(places_[i].meter->speeds(), places_[i].first, out);
  }

 private:
  static constexpr std::size_t most = 3;
  // Storage, as a job whose memory suffices opens no tier.
  struct Place {
    alignas(tiers::MeterAdaptor) std::byte storage[sizeof(tiers::MeterAdaptor)] = {};
    tiers::MeterAdaptor* meter = nullptr;
    wire::Stat first = wire::first_speed_stat;
  };
  Place places_[most];
  std::size_t count_ = 0;
};

}  // namespace terrace::liballoc
