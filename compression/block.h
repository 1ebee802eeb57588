// One block of at most 64 KiB: encode it by a codec, decode it again. Which kind a block becomes is decided
// here, by rules that are part of the frame format, so that every encoder (scalar, vector, CUDA) writes the
// same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "compression/frame.h"
#include "compression/kernels/kernels.h"

namespace terrace::compression {

// Scratch memory of one encoder or decoder. Some 300 KiB; belongs to one thread at a time, has no state
// between calls but the last members, which compress() and decompress() set.
struct Workspace {
  alignas(64) std::uint64_t mask[block_bytes / 64];             // one bit an element of one byte
  alignas(64) std::byte packed[block_bytes + 2 * write_slack];  // non-zero elements
  alignas(64) std::byte payloads[2][block_bytes + block_bytes / 4 + 4096];
  Storing storing;               // the block before, from the payload that is not written now
  Ahead ahead;                   // the block that is encoded, and what is read after it
  unsigned turn = 0;             // which payload is written
  bool packs_unsampled = false;  // the block before was not dense: zvc looks at the mask whether this one is
  bool past_caches = false;      // decoded content goes past the caches

  std::byte* coded() { return payloads[turn]; }  // a block's payload under construction
};

// A codec at work on one block: `encode` writes at most block_bytes bytes to workspace.coded(), or `begin`
// bytes behind it, and returns their number and kind, or 0 where the block does not get smaller; `decode`
// checks all that it reads, and writes all of `content` or returns false. A codec of another library may fail
// for want of memory: `encode` says so, and `can_decode`, where there is one, is asked before.
struct BlockCodec {
  Codec codec;
  struct Encoded {
    BlockKind kind = BlockKind::raw;
    std::size_t bytes = 0;
    std::size_t begin = 0;
    bool failed = false;
  };
  Encoded (*encode)(const Kernels& kernels, ElementType type, std::span<const std::byte> content,
                    Workspace& workspace);
  bool (*decode)(const Kernels& kernels, ElementType type, BlockKind kind, std::span<const std::byte> payload,
                 std::span<std::byte> content, Workspace& workspace);
  bool (*can_decode)() = nullptr;  // this thread, now
};

// Finds a codec; null for one that it does not have. own_codecs has all but lz4 and zstd, which
// external_codecs.h adds.
using CodecSet = const BlockCodec* (*)(Codec);
const BlockCodec* own_codecs(Codec codec);

// A block ready to be stored: its entry but for the offset, and its extent's bytes, which lie in the content
// itself (raw) or in the workspace.
struct EncodedBlock {
  Entry entry;
  std::span<const std::byte> extent;
  bool failed = false;  // the codec did; nothing is to be stored
};
EncodedBlock encode_block(const Kernels& kernels, const BlockCodec& codec, ElementType type,
                          std::span<const std::byte> content, Workspace& workspace);

// The same without the checksum, for those who copy the extent by kernels.store(), which computes it.
EncodedBlock encode_unsummed(const Kernels& kernels, const BlockCodec& codec, ElementType type,
                             std::span<const std::byte> content, Workspace& workspace);
// That copy: writes the extent to `dst`, past the caches; kernels.fence() belongs behind the last one.
Entry store_extent(const Kernels& kernels, const EncodedBlock& block, std::byte* dst);

// Checks the checksum, then decodes. `extent` is exactly entry.extent() bytes.
bool decode_block(const Kernels& kernels, const BlockCodec& codec, ElementType type, const Entry& entry,
                  std::span<const std::byte> extent, std::span<std::byte> content, Workspace& workspace);

}  // namespace terrace::compression
