// The codecs of our own, one file each: zvc.cpp, zvc_exp.cpp, rle.cpp, csr8.cpp. Found by own_codecs()
// (block.cpp).
#pragma once

#include "compression/block.h"

namespace terrace::compression {

extern const BlockCodec zvc_codec;
extern const BlockCodec zvc_exp_codec;
extern const BlockCodec rle_codec;
extern const BlockCodec csr8_codec;

}  // namespace terrace::compression
