// The size of a frame: CUDA's granularity of physical memory on every GPU since Volta (the driver is asked,
// and refused when it says otherwise), and the emulated device's.
#pragma once

#include <cstdint>

namespace terrace::tiers::gpu {

inline constexpr std::uint64_t frame_size = std::uint64_t{2} << 20;

}  // namespace terrace::tiers::gpu
