// Where the kernels of compression/cuda run in a test: on the emulator (machine_emulated.cpp) or on a GPU
// (machine_device.cu). The cases are the same; each program links one of the two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compression/cuda/compression_cuda.h"

namespace terrace::compression::cuda::test {

using Bytes = std::vector<std::byte>;

// What is in a machine's memory before a call writes to it.
inline constexpr std::byte poison{0xcd};

// How the threads are arranged; the seed is the emulator's, which draws their order from it.
struct Setting {
  unsigned threads = 128;
  unsigned resident_ctas = 3;
  std::uint64_t seed = 1;
};

// A tensor as a test gives it. `misalign` shifts its content (and what it is decompressed to) by so many
// bytes.
struct Input {
  std::span<const std::byte> content;
  Codec codec = Codec::zvc;
  ElementType element = ElementType::f32;
  std::uint8_t alignment_log2 = 4;
  std::size_t misalign = 0;
};
// A frame; the content's size is what the caller says, true or not.
struct Frame {
  std::span<const std::byte> bytes;
  std::size_t content_bytes = 0;
  std::size_t misalign = 0;
};
struct Output {
  FrameError error = FrameError::none;
  Bytes bytes;
};

// The name of the GPU, or of the emulator; empty where there is none, and then no other function may be
// called.
const char* machine_name();
// Whether a case may be large: the emulator takes some milliseconds for a block.
bool is_fast();

std::vector<Output> compress_all(std::span<const Input> inputs, const Setting& setting = {});
std::vector<Output> decompress_all(std::span<const Frame> frames, const Setting& setting = {});
// Of the first lengths[i] of the bytes, for each i.
std::vector<std::uint64_t> xxh3_of_prefixes(std::span<const std::byte> bytes,
                                            std::span<const std::uint32_t> lengths,
                                            const Setting& setting = {});
// The same with a numbering of the test's, for batches that are wrong. The outputs' bytes are all of the
// frames' room.
std::vector<Output> compress_numbered(std::span<const Input> inputs,
                                      std::span<const std::uint64_t> first_blocks, std::uint64_t blocks);

struct Binarized {
  Bytes y;
  std::vector<std::uint64_t> mask;
};
Binarized relu_binarize_on(ElementType type, std::span<const std::byte> x);
Bytes relu_backward_on(ElementType type, std::span<const std::uint64_t> mask, std::span<const std::byte> dy);

}  // namespace terrace::compression::cuda::test
