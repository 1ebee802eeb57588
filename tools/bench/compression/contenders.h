// What `terrace bench compression` compares, behind one interface: our codecs with each set of kernels, and
// the general compressors of the distribution on whole tensors.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "compression/base/element.h"

namespace terrace::bench {

struct Contender {
  std::string name;
  // Bytes written to `frame`, which has frame_room(content.size()) bytes; 0 for a failure.
  std::function<std::size_t(std::span<const std::byte> content, std::span<std::byte> frame)> compress;
  std::function<bool(std::span<const std::byte> frame, std::span<std::byte> content)> decompress;
};

// Enough for what any contender makes of so much content.
std::size_t frame_room(std::size_t content_bytes);

// "zvc avx512" and so on, the best kernels first; the other codecs with the best kernels: "zvc_exp", "rle",
// "lz4 in frames". One thread at a time may use what one call returns.
std::vector<Contender> every_contender(compression::ElementType element);
// The same names, but only those that are of interest for every kind of data: zvc and zvc_exp with the best
// kernels, lz4 and zstd on whole tensors.
std::vector<Contender> main_contenders(compression::ElementType element);
// One of ours.
Contender zvc_contender(compression::ElementType element);
inline constexpr const char* zvc_exp_name = "zvc_exp";
std::string best_zvc_name();
// "lz4 1.9.4" and so on, of the libraries compared with.
std::vector<std::string> compared_libraries();

}  // namespace terrace::bench
