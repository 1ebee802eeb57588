// What no policy can work with, said before any starts: sums that would not fit 64 bits, lives and alignments
// that break the contract of Buffer. With this checked, the policies add and round without looking.
#include <algorithm>
#include <bit>

#include "daemon/planner/reuse/instance.h"

namespace terrace::planner {
namespace {

std::string refusal_of(const Buffer& b, std::size_t n) {
  const std::string name = "buffer " + std::to_string(n);
  if (b.upper <= b.lower)
    return name + " has an empty life: " + std::to_string(b.lower) + " to " + std::to_string(b.upper);
  if (!std::has_single_bit(b.alignment) || b.alignment > max_instance_bytes)
    return name + " has alignment " + std::to_string(b.alignment) +
           ", which must be a power of two up to 2^61";
  return {};
}

}  // namespace

std::string refusal(const Instance& instance) {
  std::uint64_t alignment = 1;
  std::uint64_t left = max_instance_bytes;
  for (std::size_t n = 0; n < instance.buffers.size(); ++n) {
    const Buffer& b = instance.buffers[n];
    if (std::string why = refusal_of(b, n); !why.empty()) return why;
    alignment = std::max(alignment, b.alignment);
    if (b.bytes > left) return "the buffers together exceed 2^61 bytes";
    left -= b.bytes;
  }
  if (alignment - 1 > left / (instance.buffers.size() + 1))
    return "the buffers and the paddings of alignment " + std::to_string(alignment) +
           " together exceed 2^61 bytes";
  return {};
}

Result<Placement> ReusePolicy::place(const Instance& instance, const SearchControl& control) const {
  if (std::string why = refusal(instance); !why.empty()) return refused<Placement>(std::move(why));
  return solve(instance, control);
}

}  // namespace terrace::planner
