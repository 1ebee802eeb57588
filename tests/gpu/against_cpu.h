// The same work by the CPU's code, and the comparison: frames byte for byte, verdicts and contents of frames
// of arbitrary bytes.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>

#include "compression/compressor.h"
#include "machine.h"

namespace terrace::compression::cuda::test {

// One element type of each width.
inline constexpr ElementType element_of_width[] = {ElementType::u8, ElementType::bf16, ElementType::f32,
                                                   ElementType::f64};
// The codecs that the kernels have.
inline constexpr Codec gpu_codecs[] = {Codec::raw, Codec::zvc, Codec::zvc_exp, Codec::rle, Codec::csr8};

inline Workspace& workspace() {
  static const auto space = std::make_unique<Workspace>();
  return *space;
}

inline Output compressed_by_cpu(const Input& input) {
  Bytes frame(frame_bound(input.content.size(), input.alignment_log2));
  const FrameOptions options{input.codec, input.element, input.alignment_log2};
  const Compressed made = compression::compress(input.content, frame, options, workspace());
  frame.resize(made.bytes);
  return {made.error, frame};
}

inline Bytes frame_of(std::span<const std::byte> content, Codec codec, ElementType element,
                      unsigned alignment_log2 = 4) {
  Output made = compressed_by_cpu({.content = content,
                                   .codec = codec,
                                   .element = element,
                                   .alignment_log2 = static_cast<std::uint8_t>(alignment_log2)});
  REQUIRE(made.error == FrameError::none);
  return std::move(made.bytes);
}

inline Output decompressed_by_cpu(const Frame& frame) {
  Bytes content(frame.content_bytes);
  const FrameError error = compression::decompress(frame.bytes, content, workspace());
  if (error != FrameError::none) content.clear();
  return {error, content};
}

inline void require_cpus_frames(std::span<const Input> inputs, const Setting& setting = {}) {
  const std::vector<Output> outputs = compress_all(inputs, setting);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Output expected = compressed_by_cpu(inputs[i]);
    INFO("tensor " << i << ": " << inputs[i].content.size() << " bytes, " << name_of(inputs[i].codec) << ", "
                   << name_of(inputs[i].element) << ", seed " << setting.seed);
    REQUIRE(outputs[i].error == expected.error);
    REQUIRE(outputs[i].bytes.size() == expected.bytes.size());
    const auto [differs, _] =
        std::mismatch(outputs[i].bytes.begin(), outputs[i].bytes.end(), expected.bytes.begin());
    REQUIRE(differs - outputs[i].bytes.begin() == static_cast<std::ptrdiff_t>(expected.bytes.size()));
  }
}

// Returns how many were refused.
inline std::size_t require_cpus_verdicts(std::span<const Frame> frames, const Setting& setting = {}) {
  const std::vector<Output> outputs = decompress_all(frames, setting);
  std::size_t refused = 0;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const Output expected = decompressed_by_cpu(frames[i]);
    INFO("frame " << i << " of " << frames[i].bytes.size() << " bytes, seed " << setting.seed);
    REQUIRE(static_cast<int>(outputs[i].error) == static_cast<int>(expected.error));
    REQUIRE((outputs[i].bytes == expected.bytes));
    refused += expected.error != FrameError::none ? 1 : 0;
  }
  return refused;
}

}  // namespace terrace::compression::cuda::test
