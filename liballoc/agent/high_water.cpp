#include "liballoc/agent/high_water.h"

#include <algorithm>

#include "liballoc/base/kernel_files.h"
#include "liballoc/base/kernel_text.h"
#include "liballoc/base/os.h"
#include "liballoc/base/own_descriptors.h"

namespace terrace::liballoc {
namespace {

// Clearing pages takes a core 0.1 ns a byte at best, and no more than this many do nothing else.
constexpr std::uint64_t fastest_cores = 16;
constexpr std::uint64_t bytes_per_us = 10'000;
constexpr std::uint64_t least_pause_ns = 200'000;
constexpr std::uint64_t longest_pause_ns = 100'000'000;
constexpr std::uint64_t least_margin = 16ULL << 20;

}  // namespace

void HighWater::open() {
  if (scan_.open() != 0) return;
  statm_fd_ = keep_descriptor(open_kernel_file(AT_FDCWD, "/proc/self/statm"));
}

void HighWater::close() {
  scan_.close();
  close_kept(statm_fd_);
  statm_fd_ = -1;
}

// An eighth is what a few threads can touch before the agent has taken over.
void HighWater::set_budget(std::uint64_t bytes) {
  budget_ = bytes;
  mark_ = bytes - std::min(bytes, std::max(bytes / 8, least_margin));
}

// "size resident shared ...", in pages.
std::uint64_t HighWater::anonymous_bytes() const {
  char text[128];
  if (!read_kernel_file(statm_fd_, text, sizeof(text))) return ~0ULL;
  std::uint64_t fields[3] = {};
  const char* at = text;
  for (std::uint64_t& field : fields) {
    if (!parse_number(at, &field)) return ~0ULL;
    while (*at >= '0' && *at <= '9') ++at;
    while (*at == ' ') ++at;
  }
  return (fields[1] - std::min(fields[1], fields[2])) * os::page_bytes;
}

std::uint64_t HighWater::estimate(std::uint64_t spread_bytes) {
  return statm_fd_ < 0 ? spread_bytes : std::min(spread_bytes, anonymous_bytes());
}

bool HighWater::is_reached(std::uint64_t spread_bytes, std::byte* heap, std::byte* heap_end) {
  pause_ns_ = longest_pause_ns;
  if (spread_bytes <= mark_) return false;
  if (statm_fd_ < 0) return true;
  const std::uint64_t anonymous = anonymous_bytes();
  std::uint64_t held = anonymous - std::min(anonymous, others_);
  if (held > mark_ && anonymous != ~0ULL) {
    held = scan_.count(heap, heap_end);
    others_ = (anonymous - std::min(anonymous, held)) / 2;  // it may shrink
  }
  if (held > mark_) return true;
  const std::uint64_t ns = (mark_ - held) * 1000 / bytes_per_us / fastest_cores;
  pause_ns_ = std::clamp(ns, least_pause_ns, longest_pause_ns);
  return false;
}

}  // namespace terrace::liballoc
