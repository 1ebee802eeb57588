// The codecs by name and number. A codec turns one block of 64 KiB into fewer bytes; the frame around the
// blocks is frame.h's. All are lossless; Gist's encodings, which are not codecs of a frame, are in gist.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace terrace::compression {

// The numbers are part of the frame format (docs/formats/frame.md).
enum class Codec : std::uint8_t {
  raw = 0,      // the bytes as they are
  zvc = 1,      // a mask of the non-zero elements, then these packed (cDMA, HPCA 2018, section IV)
  zvc_exp = 2,  // zvc, and the packed values without the bits that a group of them has in common
  rle = 3,      // lengths of runs of zeros and of values in 8 bits each, then the values
  csr8 = 4,     // Gist's SSDC: 8-bit column indices in rows of 256, then the values (ISCA 2018, section IV)
  lz4 = 5,      // liblz4, each block for itself
  zstd = 6,     // libzstd, each block for itself, level 1
};
inline constexpr int codec_count = 7;

inline constexpr std::string_view codec_names[codec_count] = {"raw",  "zvc", "zvc_exp", "rle",
                                                              "csr8", "lz4", "zstd"};

constexpr std::string_view name_of(Codec codec) { return codec_names[static_cast<int>(codec)]; }

constexpr std::optional<Codec> codec_named(std::string_view name) {
  for (int i = 0; i < codec_count; ++i)
    if (codec_names[i] == name) return static_cast<Codec>(i);
  return std::nullopt;
}

}  // namespace terrace::compression
