// The emulated device's memory: frames in two files of memory, mapped into reserved address ranges.
//
//   device file  [0][1][2][3] …   as long as the device's capacity; a live frame counts against it
//   host file    [0][1][2] …      grows as frames are asked for
//
//   address range  │ frame d2 │ no access │ frame h0 │ frame d0 │ no access │
//
// Mapping a frame elsewhere moves no byte, as on a GPU: it is one mmap of the same piece of the file. What is
// not mapped has no access, so a stray touch faults instead of reading something old. A destroyed frame's
// pages go back to the system. Contents of a new frame are zeros, which a GPU does not promise.
//
// Any thread may call anything (device.h). Errors are errno values; nothing throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "tiers/gpu/address_table.h"
#include "tiers/gpu/device.h"

namespace terrace::tiers::gpu {

class EmulatedMemory {
 public:
  EmulatedMemory() = default;
  ~EmulatedMemory();
  EmulatedMemory(const EmulatedMemory&) = delete;
  EmulatedMemory& operator=(const EmulatedMemory&) = delete;

  int open(std::uint64_t capacity_bytes) noexcept;  // once, before anything else

  Memory memory() const noexcept;
  int reserve_address(std::uint64_t bytes, std::byte** out) noexcept;
  int release_address(std::byte* base, std::uint64_t bytes) noexcept;  // EBUSY while a frame is mapped there
  int create_frame(Place place, Frame* out) noexcept;
  int destroy_frame(Frame frame) noexcept;
  int map(std::byte* at, std::span<const Frame> frames) noexcept;  // EBUSY: a frame is mapped elsewhere
  int unmap(std::byte* at, std::uint64_t bytes) noexcept;

  // As AddressTable's.
  bool accessible(const void* at, std::uint64_t bytes) const noexcept;

 private:
  // Frame n of a file is the piece from n * frame_size on; its handle is n + 1.
  struct File {
    int fd = -1;
    std::uint64_t frames = 0;         // the file's length
    std::vector<std::uint64_t> free;  // handles that are not in use; has room for all of them
    std::uint64_t live = 0;
  };

  File& file(Place place) noexcept { return place == Place::device ? device_ : host_; }
  static int grow(File& file) noexcept;
  int place_frame(std::byte* at, Frame frame) noexcept;

  mutable std::mutex mutex_;  // guards everything below
  std::uint64_t capacity_frames_ = 0;
  File device_;
  File host_;
  AddressTable table_;
};

}  // namespace terrace::tiers::gpu
