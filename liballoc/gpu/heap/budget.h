// TERRACE_GPU_BUDGET: how much of the device's memory the heap may hold.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace terrace::liballoc::gpu {

// "8G", "1536MiB", "60.5%" of `total_bytes` (wire/size.h). EINVAL with *reason: not understood, less than a
// frame, or more than the device has; never clamped.
int parse_budget(std::string_view text, std::uint64_t total_bytes, std::uint64_t frame_bytes,
                 std::uint64_t* out, std::string* reason);

}  // namespace terrace::liballoc::gpu
