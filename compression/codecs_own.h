// The codecs of our own, one file each: zvc.cpp, zvc_exp.cpp, rle.cpp, csr8.cpp. Found by own_codecs()
// (block.cpp).
#pragma once

#include <bit>
#include <cstring>

#include "compression/base/bytes.h"
#include "compression/block.h"
#include "compression/kernels/pack.h"
#include "compression/masks.h"

namespace terrace::compression {

extern const BlockCodec zvc_codec;
extern const BlockCodec zvc_exp_codec;
extern const BlockCodec rle_codec;
extern const BlockCodec csr8_codec;

// Packs a part of the block that the workspace is told about, and meanwhile stores the block before.
inline std::size_t pack_part(const Kernels& kernels, std::size_t width, std::span<const std::byte> part,
                             std::uint64_t* mask, std::byte* values, Workspace& workspace) {
  const int log2 = std::countr_zero(width);
  const std::size_t n = part.size() / width;
  if (workspace.ahead.block == nullptr) return kernels.pack[log2](part.data(), n, mask, values);
  return kernels.pack_storing[log2](part.data(), n, mask, values, workspace.ahead, workspace.storing);
}

// What zvc and zvc_exp end with: the mask before the `bytes` bytes at `rest`, which lie where a whole mask
// would end. A short one moves the payload's beginning, which is cheaper than moving the rest.
inline BlockCodec::Encoded behind_mask(std::span<const std::uint64_t> mask, std::byte* rest,
                                       std::size_t bytes, Workspace& workspace) {
  fetch_in_half_gap(workspace.ahead);
  const std::size_t short_bytes = short_form_bytes(mask);
  if (short_bytes < mask.size_bytes()) {
    std::byte* const begin = rest - short_bytes;
    const auto first = load<std::uint64_t>(rest);  // a word that is left out is written, too, and then over
    write_short_form(mask, begin);
    store(rest, first);
    return {BlockKind::sparse, short_bytes + bytes, static_cast<std::size_t>(begin - workspace.coded())};
  }
  std::memcpy(workspace.coded(), mask.data(), mask.size_bytes());
  return {BlockKind::coded, mask.size_bytes() + bytes};
}

// The kernel that expands elements of a width to where the workspace says.
inline auto expander(const Kernels& kernels, const Workspace& workspace, std::size_t width) {
  return (workspace.past_caches ? kernels.expand_past : kernels.expand)[std::countr_zero(width)];
}

}  // namespace terrace::compression
