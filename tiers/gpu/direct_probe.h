// Does GPUDirect Storage work here, and does it pay? Asked by doing it: a real transfer of a piece of the
// pool file, verified byte by byte and through the other path as well, and timed against that path.
#pragma once

#include <cstdint>
#include <string>

#include "tiers/gpu/device.h"
#include "tiers/gpu/direct_storage.h"

namespace terrace::tiers::gpu {

// The way through host memory that it is compared with: blocking, 0 or errno.
struct BouncePath {
  int (*write)(void* context, const void* device, std::uint64_t bytes, std::uint64_t offset) = nullptr;
  int (*read)(void* context, void* device, std::uint64_t bytes, std::uint64_t offset) = nullptr;
  void* context = nullptr;
};

inline constexpr unsigned direct_probe_rounds = 3;
// What a probe of `bytes` writes to the drive: every round once by either path.
constexpr std::uint64_t direct_probe_writes(std::uint64_t bytes) {
  return std::uint64_t{2} * direct_probe_rounds * bytes;
}

struct DirectProbe {
  std::uint64_t bytes = 0;  // of each transfer; the times are the best of three
  std::uint64_t direct_write_ns = 0, direct_read_ns = 0;
  std::uint64_t bounce_write_ns = 0, bounce_read_ns = 0;
  // Whether writing and reading back took less time than through host memory.
  bool pays() const noexcept { return direct_write_ns + direct_read_ns < bounce_write_ns + bounce_read_ns; }
};

// Writes to [offset, offset + bytes) of the file, which is the caller's to lose; bytes is a multiple of the
// frame. Takes as much device memory and as much of the host's while it runs. 0, or errno with *reason: what
// a step of either path answered; EBADMSG: what came back was not what was written, and the path must not be
// used.
int probe_direct_storage(DirectStorage& storage, Device& device, int fd, std::uint64_t offset,
                         std::uint64_t bytes, const BouncePath& bounce, DirectProbe* out,
                         std::string* reason);

// A plain bounce path over a descriptor: one transfer at a time through memory of its own, pinned where the
// limit allows. What `terrace doctor` compares with.
class PlainBounce {
 public:
  PlainBounce(Device& device, int fd) noexcept : device_(device), fd_(fd) {}
  ~PlainBounce();
  PlainBounce(const PlainBounce&) = delete;
  PlainBounce& operator=(const PlainBounce&) = delete;
  int open(std::uint64_t bytes) noexcept;  // the largest transfer
  BouncePath path() noexcept;

 private:
  int copy(void* to, const void* from, std::uint64_t bytes, Way way) noexcept;

  Device& device_;
  const int fd_;
  void* memory_ = nullptr;
  std::uint64_t bytes_ = 0;
  bool pinned_ = false;
  Event event_ = nullptr;
};

}  // namespace terrace::tiers::gpu
