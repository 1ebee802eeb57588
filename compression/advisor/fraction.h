// How small each codec makes a tensor, from a sample of it: the sizes of docs/formats/frame.md with rates in
// the place of counts. lz4 and zstd depend on more than zeros and are not predicted.
#pragma once

#include <cstdint>

#include "compression/advisor/sample.h"
#include "compression/codec.h"

namespace terrace::compression {

inline constexpr Codec predictable_codecs[] = {Codec::raw, Codec::zvc, Codec::zvc_exp, Codec::rle,
                                               Codec::csr8};

// Whether the frame's blocks would be stored raw because zeros are too few (frame.md, rule 4): then encoding
// is a copy.
bool too_dense(ElementType type, const Sample& sample);

// Bytes of the frame by bytes of the content; over 1 by header and table where nothing gets smaller. For
// Codec::raw exactly 1: raw content is moved without a frame.
double predicted_fraction(Codec codec, ElementType type, const Sample& sample, std::uint64_t content_bytes);

// The other way round, for codecs of which the size depends on the number of zeros alone (zvc, csr8): the
// sparsity that such a frame's size tells. Negative for other codecs and for frames that got no smaller.
double sparsity_of_frame(Codec codec, ElementType type, const Sample& sample, std::uint64_t content_bytes,
                         std::uint64_t frame_bytes);

}  // namespace terrace::compression
