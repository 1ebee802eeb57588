// What may stand after --gpu, as anything at all: parsing ends with a device within its bounds, or with a
// reason that begins with the text and leaves the result alone.
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "tiers/gpu/device.h"

using namespace terrace::tiers::gpu;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  DeviceSpec spec;
  spec.index = -7;
  std::string reason;
  const int error = parse_device(text, &spec, &reason);
  if (error != 0) {
    const bool right = error == EINVAL && spec.index == -7 && reason.starts_with("\"" + text + "\"");
    if (!right) std::abort();
    return 0;
  }
  constexpr std::uint64_t frame = 2 << 20;
  constexpr std::uint64_t largest = std::uint64_t{16} << 40;
  const bool emulated = spec.capacity_bytes != 0 && spec.capacity_bytes % frame == 0 &&
                        spec.capacity_bytes <= largest && spec.latency_ns <= 10'000'000'000 &&
                        spec.to_host_bytes_per_s <= largest && spec.to_device_bytes_per_s <= largest;
  const bool cuda = spec.index >= 0 && spec.capacity_bytes == 0;
  if (spec.kind == Kind::emulated ? !emulated : !cuda) std::abort();
  return 0;
}
