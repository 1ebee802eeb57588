// The codecs of our own, one file each: zvc.cpp, zvc_exp.cpp, rle.cpp, csr8.cpp. Found by own_codecs()
// (block.cpp).
#pragma once

#include <bit>

#include "compression/block.h"

namespace terrace::compression {

extern const BlockCodec zvc_codec;
extern const BlockCodec zvc_exp_codec;
extern const BlockCodec rle_codec;
extern const BlockCodec csr8_codec;

// For encoders that go through a block in slices: between them the block before is stored, as much of it as
// the slice is of a block, so that memory is written to while this block's elements are packed.
inline void store_meanwhile(const Kernels& kernels, Workspace& workspace, std::size_t slice_bytes) {
  Storing& storing = workspace.storing;
  if (storing.bytes > 0) kernels.store_some(storing, storing.bytes * slice_bytes / block_bytes + 64);
}

// The kernel that expands elements of a width to where the workspace says.
inline auto expander(const Kernels& kernels, const Workspace& workspace, std::size_t width) {
  return (workspace.past_caches ? kernels.expand_past : kernels.expand)[std::countr_zero(width)];
}

}  // namespace terrace::compression
