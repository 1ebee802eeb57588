// The codecs of other libraries. Not part of what is preloaded: these libraries allocate.
#pragma once

#include "compression/block.h"

namespace terrace::compression {

// own_codecs(), lz4 and zstd.
const BlockCodec* all_codecs(Codec codec);

}  // namespace terrace::compression
