// Where blocks lie: two ranges of addresses with frames behind them, and how a request finds its memory
// there.
//
// Blocks below 1 MiB live in a range of their own, so that they do not pin frames among large ones. The order
// in which a request is served is that of heap.h. Frames move here; what leaves device memory, and who waits
// for the device, is decided above. Not thread-safe: under the heap's lock.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "liballoc/gpu/heap/frame_ledger.h"
#include "liballoc/gpu/heap/placement.h"
#include "liballoc/gpu/heap/stream_clocks.h"
#include "liballoc/gpu/terrace_gpu.h"

namespace terrace::liballoc::gpu {

struct Arena {
  Arena(std::uint64_t begin, std::uint64_t bytes, std::uint64_t frame_bytes)
      : placement(begin, bytes, frame_bytes) {}
  Placement placement;
  std::vector<std::uint64_t> asked_bytes;  // by handle of a block
};

struct Block {
  Arena* arena;
  Placement::Handle piece;
};

class Arenas {
 public:
  using Stream = tiers::gpu::Stream;
  static constexpr std::uint64_t small_bytes = std::uint64_t{1} << 20;  // below: the small blocks' range

  // All of them live longer. `counts` gets what is done here.
  Arenas(FrameLedger& ledger, StreamClocks& clocks, terrace_gpu_statistics& counts)
      : ledger_(ledger), clocks_(clocks), counts_(counts) {}
  Arenas(const Arenas&) = delete;

  // Once: addresses for so much memory, of which blocks may use the whole many times. ENOMEM, or the device's
  // error.
  int open(std::uint64_t memory_bytes, std::uint64_t frame_bytes);

  // Steps 1 to 4 of a request of so many bytes: at_once() is the first of them, find() the others. False:
  // there is no place now. *refusal is then why, where the device said so, and else stays.
  bool at_once(std::uint64_t bytes, Owner owner, Block* out);
  bool find(std::uint64_t bytes, Owner owner, Stream stream, Block* out, int* refusal);
  // The block's memory is used by the program from now on.
  void use(const Block& block, std::uint64_t asked_bytes);
  // It is free from `mark` on.
  void release(const Block& block, Mark mark);
  [[nodiscard]] static std::uint64_t asked_bytes(const Block& block) {
    return block.arena->asked_bytes[block.piece];
  }

  [[nodiscard]] static Span span_of(const Block& block);
  // Whole frames around a span.
  [[nodiscard]] Span frames_of(Span span) const;
  [[nodiscard]] std::uint64_t missing_frames(Span span) const;
  // Puts spare frames, of which there are enough, behind what lacks them. The device's error.
  int map_missing(const Block& block);

  // Moves frames out of free ranges until `wanted` are spare, or no frame is left that can move.
  void gather(std::uint64_t wanted);
  // Free ranges whose last use has passed are nobody's. True: there were some.
  bool settle_passed();
  // Of the largest free range that has one.
  [[nodiscard]] Mark largest_last_use() const;
  // In free ranges of a frame and more, with frames behind them.
  [[nodiscard]] std::uint64_t idle_bytes() const;
  [[nodiscard]] std::string check_invariants() const;

 private:
  using Handle = Placement::Handle;
  static constexpr Handle none = Placement::none;

  Arena& arena_for(std::uint64_t bytes) { return arenas_[bytes < small_bytes ? 0 : 1]; }
  static Handle take(Arena* arena, Handle piece, std::uint64_t bytes);
  Handle reuse_passed(Arena* arena, std::uint64_t bytes, Owner owner);
  Handle reuse_behind_event(Arena* arena, std::uint64_t bytes, Owner owner, Stream stream);
  Handle grow(Arena* arena, std::uint64_t bytes, Owner owner, bool new_frames, int* refusal);
  bool back_with_frames(const Block& block, bool new_frames, int* refusal);
  [[nodiscard]] bool much_is_idle() const;
  void put_back(const Block& block, Mark mark);
  void mark_unmapped(Arena* arena, Handle near, Span span);
  void strip(Arena* arena, Handle piece, std::uint64_t wanted);

  FrameLedger& ledger_;
  StreamClocks& clocks_;
  terrace_gpu_statistics& counts_;
  std::vector<Arena> arenas_;  // small, large
  std::vector<Handle> donors_;
};

}  // namespace terrace::liballoc::gpu
