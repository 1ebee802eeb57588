#include "liballoc/gpu/heap/budget.h"

#include <cerrno>
#include <charconv>
#include <optional>

namespace terrace::liballoc::gpu {
namespace {

std::optional<unsigned> shift_of(std::string_view unit) {
  if (unit.empty() || unit == "B") return 0;
  const std::string_view rest = unit.substr(1);
  if (!rest.empty() && rest != "B" && rest != "iB") return std::nullopt;
  const std::size_t at = std::string_view("KMGT").find(unit.front());
  if (at == std::string_view::npos) return std::nullopt;
  return static_cast<unsigned>(10 * (at + 1));
}

std::optional<std::uint64_t> size_or_share(std::string_view text, std::uint64_t total_bytes) {
  std::uint64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  const std::string_view unit = text.substr(static_cast<std::size_t>(rest - text.data()));
  if (unit == "%") {
    if (number < 1 || number > 100) return std::nullopt;
    return total_bytes / 100 * number + total_bytes % 100 * number / 100;
  }
  const auto shift = shift_of(unit);
  if (!shift || number > ((std::uint64_t{1} << 62) >> *shift)) return std::nullopt;
  return number << *shift;
}

}  // namespace

int parse_budget(std::string_view text, std::uint64_t total_bytes, std::uint64_t frame_bytes,
                 std::uint64_t* out, std::string* reason) {
  const std::string what = "TERRACE_GPU_BUDGET=" + std::string(text);
  const auto bytes = size_or_share(text, total_bytes);
  if (!bytes) {
    *reason = what + " is not understood; accepted: a size such as 8G or 1536MiB, or 1% to 100%";
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
