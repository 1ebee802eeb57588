// Device memory for frames between a kernel and the link: a range of the device's frames, mapped once when
// the first tensor needs it, carved into pieces of the size that each needs.
//
//   │ piece: frame │ scratch │ piece: frame        │ scratch │      free      │
//
// Pieces are given out in the order in which they were asked for, so a large one is not starved by small
// ones. Who waits waits for transfers: the link is busy then, and a tensor that went as it is would queue for
// the same link with more bytes.
//
// Any thread may call anything. Nothing is thrown but std::bad_alloc.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "liballoc/gpu/offload/codec/codec_kernels.h"
#include "liballoc/gpu/offload/memory/free_extents.h"
#include "tiers/gpu/device.h"
#include "tiers/tier.h"

namespace terrace::liballoc::offload {

struct Piece {
  tiers::Extent extent{};
  CodecCall call;
};

class Staging {
 public:
  static constexpr std::uint64_t unit_bytes = 4096;
  static constexpr unsigned most_pieces = 64;

  Staging() = default;
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  // Every piece has been given back, and nothing on the device uses them.
  ~Staging();

  // At most `bytes` (0: a 32nd of the device's memory, at most 256 MiB), rounded up to whole frames. Takes no
  // memory yet.
  void open(tiers::gpu::Device* device, std::uint64_t bytes);
  std::uint64_t capacity_bytes() const { return capacity_bytes_; }

  // A piece of `bytes`, at most capacity_bytes(), at an address that is a multiple of unit_bytes; waits until
  // there is one. nullptr: the device has no memory for the staging.
  Piece* take(std::uint64_t bytes);
  void give(Piece* piece);
  bool is_waited_for();
  // Its memory goes back to the device, if no piece of it is in use and nobody waits for one. It comes again
  // with the next piece.
  void give_back();
  // Pieces are numbered below most_pieces.
  std::size_t number_of(const Piece* piece) const { return static_cast<std::size_t>(piece - pieces_); }
  std::byte* at(const Piece& piece) const { return base_ + piece.extent.offset; }

 private:
  bool map();
  int map_frames();
  void unmap();

  tiers::gpu::Device* device_ = nullptr;
  std::uint64_t capacity_bytes_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool tried_to_map_ = false;
  std::byte* base_ = nullptr;
  std::uint64_t mapped_bytes_ = 0;
  std::vector<tiers::gpu::Frame> frames_;
  FreeExtents free_;
  std::uint64_t next_turn_ = 0;  // of those who ask
  std::uint64_t turn_ = 0;       // who is served
  Piece pieces_[most_pieces];
  std::vector<Piece*> unused_;
};

}  // namespace terrace::liballoc::offload
