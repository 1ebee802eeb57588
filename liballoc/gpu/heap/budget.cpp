#include "liballoc/gpu/heap/budget.h"

#include <cerrno>
#include <optional>

#include "liballoc/wire/size.h"

namespace terrace::liballoc::gpu {
namespace {

std::optional<std::uint64_t> size_or_share(std::string_view text, std::uint64_t total_bytes) {
  std::uint64_t bytes = 0, share = 0;
  if (wire::read_size(text, &bytes) == 0) return bytes;
  return wire::read_percent(text, &share) == 0 ? std::optional(wire::share_of(total_bytes, share))
                                               : std::nullopt;
}

}  // namespace

int parse_budget(std::string_view text, std::uint64_t total_bytes, std::uint64_t frame_bytes,
                 std::uint64_t* out, std::string* reason) {
  const std::string what = "TERRACE_GPU_BUDGET=" + std::string(text);
  const auto bytes = size_or_share(text, total_bytes);
  if (!bytes) {
    *reason = what + " is not understood; accepted: " + wire::size_grammar + ", or " + wire::percent_grammar;
    return EINVAL;
  }
  if (*bytes > total_bytes) {
    *reason = what + " is more than the device's " + std::to_string(total_bytes) + " bytes";
    return EINVAL;
  }
  if (*bytes < frame_bytes) {
    *reason = what + " is less than one frame of " + std::to_string(frame_bytes) + " bytes";
    return EINVAL;
  }
  *out = *bytes;
  return 0;
}

}  // namespace terrace::liballoc::gpu
