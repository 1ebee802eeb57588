// Makes the segment that a job shares with us: a sealed memfd, laid out once with Boost.Interprocess.
//
// Boost's allocator lives inside the segment, so it is used only before the job can reach it;
// afterwards we keep nothing but offsets into our own mapping and read through JobStats and
// RingReader, which believe nothing.
#pragma once

#include <cstdint>

#include "daemon/base/unique_fd.h"
#include "liballoc/wire/segment.h"

namespace terrace::daemon {

class Segment {
 public:
  static constexpr std::uint64_t ring_capacity = 8192;

  Segment() = default;
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  // 0 or errno; *out is untouched on failure.
  static int create(Segment* out);

  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t stats_offset() const { return stats_offset_; }
  std::uint64_t ring_offset() const { return ring_offset_; }
  const wire::JobStats& stats() const;
  const wire::EventRing* ring() const;
  // What was read of the events counts as ours no longer. A full ring is 320 KiB, and there may be a
  // thousand.
  void let_go_of_events() const;

  // To be sent; close_fd() afterwards, the mapping stays.
  int fd() const { return fd_.get(); }
  void close_fd() { fd_.reset(); }

 private:
  int lay_out();
  void* base_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint64_t stats_offset_ = 0;
  std::uint64_t ring_offset_ = 0;
  UniqueFd fd_;
};

}  // namespace terrace::daemon
