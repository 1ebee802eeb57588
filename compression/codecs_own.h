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

// The kernel that expands elements of a width to where the workspace says.
inline auto expander(const Kernels& kernels, const Workspace& workspace, std::size_t width) {
  return (workspace.past_caches ? kernels.expand_past : kernels.expand)[std::countr_zero(width)];
}

}  // namespace terrace::compression
