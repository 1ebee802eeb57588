// What the engine knows of one stored tensor. Its fields belong to the engine's lock, but for those that a
// worker reads while it has the tensor in use (`users`): nobody else changes them meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "compression/base/element.h"
#include "compression/codec.h"
#include "tiers/gpu/device.h"
#include "tiers/tier.h"

namespace terrace::liballoc::offload {

struct Piece;

struct Tensor : std::enable_shared_from_this<Tensor> {
  // leaving: the copy out is queued or under way. stored: it has passed. failed: nothing was stored, or
  // what was is lost; `error` says why.
  // waiting: it needs room first.
  enum class State : std::uint8_t { waiting, leaving, stored, failed };
  // awaiting: the drive. queued: for a worker. running: one is at it. decoding: a kernel is. under_way: the
  // rest is in the device's stream.
  enum class Arrival : std::uint8_t { none, awaiting, queued, running, decoding, under_way, failed };
  enum class Drive : std::uint8_t { idle, writing, reading };
  enum class Proof : std::uint8_t { none, sum, header };  // what `sum` is (proofs.h)

  std::uint64_t id = 0;
  std::size_t position = 0;  // in its step
  std::uint64_t site = 0;
  compression::ElementType element = compression::ElementType::u8;

  const std::byte* source = nullptr;
  std::uint64_t bytes = 0;
  tiers::gpu::Event ready = nullptr;     // the source is written
  tiers::gpu::Event coded = nullptr;     // the kernel that makes its frame has passed
  tiers::gpu::Event departed = nullptr;  // the copy out has passed
  State state = State::leaving;
  int error = 0;
  bool left_told = false;      // the caller knows that the source is his again
  bool source_in_use = false;  // by a worker, now
  bool gone = false;           // released; whoever uses it last frees what it has
  unsigned users = 0;

  // On a device: what kernels and copies use of the staging now.
  compression::Codec codec_to_try = compression::Codec::raw;
  Piece* leaving_piece = nullptr;
  Piece* arriving_piece = nullptr;
  std::uint64_t copy_begun_ns = 0;  // out of the piece, or after a try

  // As stored: the bytes themselves or a frame of them.
  compression::Codec codec = compression::Codec::raw;
  std::uint64_t stored_bytes = 0;
  std::uint64_t sum = 0;
  Proof proof = Proof::none;
  tiers::Extent memory{};           // no bytes: not in host memory
  tiers::Extent disk{};             // no bytes: not on the drive
  std::uint64_t charged_bytes = 0;  // in the endurance ledger, and not given to the drive yet
  Drive drive = Drive::idle;
  bool memory_filled = false;  // `memory` holds the stored bytes
  bool disk_filled = false;
  bool from_drive = false;    // what `memory` holds came from there
  bool clean = false;         // both are filled: the memory can be had
  bool pressed = false;       // stored while host memory was short: it will go on to the drive
  bool read_ahead = false;    // brought back before it was asked for
  bool read_failed = false;   // ahead: it is not tried again before it is asked for
  bool in_pieces = false;     // straight to the drive and back; in `memory` only if `direct` and read ahead
  bool direct = false;        // in_pieces, but its frame goes by GPUDirect Storage, as a whole
  bool through_host = false;  // direct, but its way back is not: cuFile failed
  int part_error = 0;         // of the part that the drive had last

  std::byte* to = nullptr;
  std::uint64_t fetches = 0;  // begun
  Arrival arrival = Arrival::none;
  int arrival_error = 0;
  std::uint64_t arrival_begun_ns = 0;   // its copy was queued
  bool handed_back = false;             // comes from the source, not from the store
  tiers::gpu::Event to_free = nullptr;  // `to` may be written
  tiers::gpu::Event arrived = nullptr;

  bool is_moving() const { return arrival >= Arrival::awaiting && arrival <= Arrival::decoding; }
  bool is_raw() const { return codec == compression::Codec::raw; }
  // In host memory alone, and not asked for yet: the drive may have it.
  bool may_be_written() const {
    return state == State::stored && memory_filled && disk.bytes == 0 && to == nullptr;
  }
  // What lies in host memory was read ahead.
  bool comes_by_cufile() const { return direct && !memory_filled && !through_host; }
};

using TensorPtr = std::shared_ptr<Tensor>;

}  // namespace terrace::liballoc::offload
