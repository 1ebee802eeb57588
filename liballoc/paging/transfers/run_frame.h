// A compressed run: made in a buffer, and turned into the run again where it was read to. Plain computing on
// memory that is the caller's own, with what it needs to work beside it, so any thread may do it.
//
//   encode   the whole run ──compress──► buffer, as long as the frame, filled up to whole pages
//   decode   the end of a staging frame ──decompress──► the whole of it
//
// A restore needs no buffer: content never overtakes what is still to be read. Which codec it is, and what
// becomes of it, is RunCodec's (run_codec.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "compression/compressor.h"
#include "liballoc/base/os.h"
#include "liballoc/heap/space/address_space.h"

namespace terrace::liballoc {

// What one thread needs for it. 430 KiB.
struct CodecScratch {
  alignas(64) std::byte held[2][compression::block_bytes + compression::payload_unit];
  compression::Workspace workspace;
};

struct RunFrame {
  // Where a run's frame has its payload: the header and the table lie before it.
  static constexpr std::size_t head_bytes =
      compression::header_bytes + run_bytes / compression::block_bytes * compression::entry_bytes;
  static constexpr std::size_t buffer_bytes =
      (run_bytes + head_bytes + os::page_bytes - 1) / os::page_bytes * os::page_bytes;
  // A frame that saves less is not worth the time that bringing it back takes.
  static constexpr std::size_t most_stored_bytes = run_bytes / 16 * 15;
  // Nor is one that saves less than this worth the DRAM that it would take.
  static constexpr std::size_t most_kept_bytes = run_bytes / 8 * 5;

  // Where in a staging frame to read so many stored bytes to.
  static std::byte* place(std::byte* frame, std::uint32_t bytes) { return frame + run_bytes - bytes; }
};

// To be done, and what came of it.
struct RunEncoding {
  const std::byte* run = nullptr;
  std::byte* buffer = nullptr;  // of RunFrame::buffer_bytes
  compression::Codec codec = compression::Codec::raw;
  compression::ElementType element = compression::ElementType::f32;
  std::uint32_t generation = 0;
  unsigned number = 0;  // of the buffer

  std::uint32_t bytes = 0;      // of whole pages to be stored; 0: it is not worth it
  std::size_t frame_bytes = 0;  // that the codec made of it
  std::uint64_t sum = 0;
  std::uint64_t ns = 0;

  void work(CodecScratch& scratch);
};

struct RunDecoding {
  std::byte* frame = nullptr;  // whose last `bytes` are what was read
  std::uint32_t bytes = 0;
  std::uint32_t generation = 0;
  std::uint64_t sum = 0;

  bool is_intact = false;  // it is what was written, and the run is in the frame
  compression::Codec codec = compression::Codec::raw;
  compression::ElementType element = compression::ElementType::f32;
  std::uint64_t frame_bytes = 0;
  std::uint64_t ns = 0;

  void work(CodecScratch& scratch);
};

}  // namespace terrace::liballoc
