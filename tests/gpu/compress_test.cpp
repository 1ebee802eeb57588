// Frames from the kernels against those of the CPU, byte for byte.
#include <algorithm>
#include <catch2/catch.hpp>

#include "against_cpu.h"
#include "cases.h"

using namespace terrace::compression;
using namespace terrace::compression::cuda::test;

namespace {

// A full block whose zeros lie where rule 4 does not look, but for so many in the first of the groups that it
// looks at.
Bytes sampled_block(std::size_t width, std::size_t sampled_zeros) {
  Bytes bytes(block_bytes, std::byte{1});
  const std::size_t words = block_bytes / width / 64, stride = words / 16;
  for (std::size_t word = 0; word < words; ++word)
    if (word % stride != 0)
      std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(word * 64 * width), 32 * width, std::byte{0});
  std::fill_n(bytes.begin(), sampled_zeros * width, std::byte{0});
  bytes.back() = std::byte{2};
  return bytes;
}

}  // namespace

TEST_CASE("EveryKindOfBlockIsTheCpus") {
  for (const Codec codec : gpu_codecs)
    for (const ElementType element : element_of_width) {
      const std::size_t width = width_of(element), n = block_bytes;
      const Bytes contents[] = {zeros(n),
                                noise(n, 1),
                                repeated(n, width, 2),
                                activations(n, width, 3),
                                sparse(n, width, 0.3, 4),
                                sparse(n, width, 0.05, 5, 256),
                                one_element_at(n, width, 0),
                                one_element_at(n, width, n / width - 1)};
      std::vector<Input> inputs;
      for (const Bytes& content : contents)
        inputs.push_back({.content = content, .codec = codec, .element = element});
      require_cpus_frames(inputs);
    }
}

TEST_CASE("TheRuleForDenseBlocksIsExact") {
  for (const ElementType element : element_of_width) {
    const std::size_t width = width_of(element), limit = 1024 / (8 * width);
    for (std::size_t zeros : {limit - 1, limit, limit + 1}) {
      // A sampled group has 64 elements: what is more goes to the next one.
      const std::size_t first = std::min<std::size_t>(zeros, 64);
      Bytes content = sampled_block(width, first);
      const std::size_t second = block_bytes / 16;
      std::fill_n(content.begin() + static_cast<std::ptrdiff_t>(second), (zeros - first) * width,
                  std::byte{0});
      for (const Codec codec : {Codec::zvc, Codec::rle, Codec::csr8}) {
        const Input input{.content = content, .codec = codec, .element = element};
        require_cpus_frames({&input, 1});
      }
      const Bytes frame = frame_of(content, Codec::zvc, element);
      REQUIRE((read_entry(frame, 0).kind == BlockKind::raw) == (zeros < limit));
    }
  }
}

// The extent then begins behind the front and is nearly as long as the content: where the checksum's sums lie
// has to be behind it.
TEST_CASE("AnAlmostDenseBlockWithAShortMaskKeepsItsBytes") {
  const struct { std::size_t width, least_empty; } forms[] = {{1, 116}, {2, 31}, {4, 8}, {8, 3}};
  std::vector<Bytes> contents;
  std::vector<Input> inputs;
  for (const auto& form : forms)
    for (std::size_t empty = form.least_empty; empty < form.least_empty + 3; ++empty) {
      const std::size_t words = block_bytes / form.width / 64;
      Bytes content = noise(block_bytes, empty);
      for (std::byte& byte : content) byte |= std::byte{1};
      for (std::size_t i = 0; i < empty; ++i) {  // among them those that rule 4 looks at
        const std::size_t word = i < 16 ? i * words / 16 : i * words / 16 % words + i / 16;
        std::fill_n(content.begin() + static_cast<std::ptrdiff_t>(word * 64 * form.width), 64 * form.width,
                    std::byte{0});
      }
      contents.push_back(content);
    }
  for (std::size_t i = 0; i < contents.size(); ++i)
    for (const Codec codec : {Codec::zvc, Codec::zvc_exp})
      inputs.push_back({.content = contents[i], .codec = codec, .element = element_of_width[i / 3]});
  require_cpus_frames(inputs);
  for (std::size_t i = 3; i < 6; ++i) {  // of two bytes
    const Bytes frame = frame_of(contents[i], Codec::zvc, element_of_width[1]);
    REQUIRE(read_entry(frame, 0).kind == BlockKind::sparse);
  }
}

// Values hardly move then: what a round writes lies where the same round reads.
TEST_CASE("AlmostDenseBlocksArePackedInPlace") {
  std::vector<Bytes> contents;
  std::vector<Input> inputs;
  for (const ElementType element : element_of_width)
    for (const double density : {0.7, 0.85, 0.95})
      contents.push_back(sparse(block_bytes, width_of(element), density, contents.size()));
  for (std::size_t i = 0; i < contents.size(); ++i)
    for (const Codec codec : {Codec::zvc, Codec::zvc_exp, Codec::rle, Codec::csr8})
      inputs.push_back({.content = contents[i], .codec = codec, .element = element_of_width[i / 3]});
  for (const unsigned threads : {128U, 256U, 512U})
    for (const std::uint64_t seed : {1, 2}) require_cpus_frames(inputs, {.threads = threads, .seed = seed});
}

TEST_CASE("EverySizeOfALastBlockIsTheCpus") {
  for (const ElementType element : element_of_width) {
    const std::size_t width = width_of(element);
    std::vector<Bytes> contents;
    for (const std::size_t elements :
         {0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 511, 1023, 1025, 4097}) {
      contents.push_back(activations(elements * width, width, elements));
      contents.push_back(sparse(elements * width, width, 0.02, elements));
      contents.push_back(repeated(elements * width, width, elements));
    }
    std::vector<Input> inputs;
    for (const Bytes& content : contents) {
      for (const Codec codec : {Codec::zvc, Codec::zvc_exp, Codec::rle, Codec::csr8})
        inputs.push_back({.content = content, .codec = codec, .element = element});
    }
    require_cpus_frames(inputs);
  }
}

TEST_CASE("EveryTypeOfElementIsTheCpus") {
  constexpr std::size_t words = 2500;
  for (int type = 0; type < element_type_count; ++type) {
    const auto element = static_cast<ElementType>(type);
    const Bytes small = sparse(words * 8, width_of(element), 0.4, 9),
                real = activations(40000, width_of(element), 8);
    const Input inputs[] = {{.content = small, .codec = Codec::zvc_exp, .element = element},
                            {.content = real, .codec = Codec::zvc_exp, .element = element},
                            {.content = real, .codec = Codec::zvc, .element = element, .alignment_log2 = 12}};
    require_cpus_frames(inputs);
  }
}

TEST_CASE("AnyArrangementOfThreadsMakesTheSameFrames") {
  Bytes content = activations(5 * block_bytes + 1000, 4, 1);
  std::fill_n(content.begin() + block_bytes, block_bytes, std::byte{0});
  const Bytes other = noise(2 * block_bytes + 12, 2);
  const Input inputs[] = {{.content = content},
                          {.content = other},
                          {.content = content, .codec = Codec::zvc_exp},
                          {.content = content, .codec = Codec::rle},
                          {.content = content, .codec = Codec::csr8}};
  for (const unsigned threads : {128U, 256U, 512U})
    for (const std::uint64_t seed : {0, 1, 2})
      require_cpus_frames(inputs, {.threads = threads, .resident_ctas = 4, .seed = seed});
}

// Of 4 CTAs each has its next block early but for the last blocks of a tensor, and comes to others without
// one.
TEST_CASE("BlocksTakenEarlyKeepTheirPlaces") {
  Bytes content = activations(14 * block_bytes + 1000, 4, 1);
  std::fill_n(content.begin() + 3 * block_bytes, 2 * block_bytes, std::byte{0});
  const Bytes shorter = noise(6 * block_bytes, 2), shortest = activations(500, 4, 3);
  const Input inputs[] = {{.content = content},
                          {.content = shortest},
                          {.content = content, .codec = Codec::lz4},
                          {.content = shorter},
                          {.content = content, .codec = Codec::csr8}};
  for (const std::uint64_t seed : {0, 1, 2, 3}) {
    const Setting setting{.resident_ctas = 4, .seed = seed};
    const std::vector<Output> outputs = compress_all(inputs, setting);
    for (std::size_t i = 0; i < std::size(inputs); ++i) {
      INFO("seed " << seed << ", tensor " << i);
      REQUIRE((outputs[i].error == FrameError::none) == (inputs[i].codec != Codec::lz4));
      if (outputs[i].error == FrameError::none)
        REQUIRE((outputs[i].bytes == frame_of(inputs[i].content, inputs[i].codec, inputs[i].element)));
    }
  }
}

TEST_CASE("ContentAtAnyAddressOfAnElementIsTheCpus") {
  const Bytes bytes = activations(70000, 1, 1), halves = activations(70000, 2, 1);
  const Input inputs[] = {{.content = bytes, .element = ElementType::u8, .misalign = 1},
                          {.content = bytes, .element = ElementType::u8, .misalign = 15},
                          {.content = halves, .element = ElementType::f16, .misalign = 2}};
  require_cpus_frames(inputs);
}

TEST_CASE("ATensorThatCannotBeIsRefusedAndTheOthersAreNot") {
  const Bytes content = activations(4096, 4, 1);
  const Input inputs[] = {{.content = content},
                          {.content = std::span(content).first(4095)},
                          {.content = content, .codec = Codec::lz4},
                          {.content = content, .alignment_log2 = 3},
                          {.content = content, .misalign = 2},
                          {.content = content, .codec = Codec::zvc_exp}};
  const std::vector<Output> outputs = compress_all(inputs);
  const FrameError expected[] = {FrameError::none,          FrameError::bad_argument,
                                 FrameError::codec_missing, FrameError::bad_argument,
                                 FrameError::bad_argument,  FrameError::none};
  for (std::size_t i = 0; i < std::size(inputs); ++i) {
    INFO("tensor " << i);
    REQUIRE(outputs[i].error == expected[i]);
    REQUIRE(outputs[i].bytes.empty() == (expected[i] != FrameError::none));
  }
}

// The empty tensor's frame is known without looking at any block; it must not be written either.
TEST_CASE("AWronglyNumberedBatchIsRefusedAsAWholeAndNothingIsWritten") {
  const Bytes content = activations(block_bytes, 4, 1);
  const Input inputs[] = {{.content = content}, {.content = content}, {}};
  struct Numbering {
    std::uint64_t first[3], blocks;
  };
  for (const auto& [first, blocks] :
       {Numbering{{0, 0, 2}, 2}, {{1, 2, 3}, 3}, {{0, 1, 2}, 3}, {{0, 1, 2}, 1}, {{0, 1, 1}, 2}})
    for (const Output& output : compress_numbered(inputs, first, blocks)) {
      REQUIRE(output.error == FrameError::bad_argument);
      REQUIRE(static_cast<std::size_t>(std::count(output.bytes.begin(), output.bytes.end(), poison)) ==
              output.bytes.size());
    }
}

TEST_CASE("EmptyTensorsAmongOthersAreTheCpus") {
  const Bytes content = activations(block_bytes + 4, 4, 1);
  std::vector<Input> inputs(40);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    inputs[i].alignment_log2 = static_cast<std::uint8_t>(4 + i % 9);
  require_cpus_frames(inputs);
  inputs[7].content = inputs[31].content = content;
  require_cpus_frames(inputs);
}
