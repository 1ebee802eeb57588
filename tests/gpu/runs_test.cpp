// What rle and csr8 are about: runs of every length about 255 at any place, and pairs and rows that no
// encoder writes, in frames that are sound otherwise.
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "against_cpu.h"
#include "cases.h"
#include "compression/base/bytes.h"

using namespace terrace::compression;
using namespace terrace::compression::cuda::test;

namespace {

constexpr Codec described[] = {Codec::rle, Codec::csr8};

// Elements in runs by turns, beginning with zeros where lengths[0] is not 0; the last ones fill `elements`.
Bytes runs(std::size_t elements, std::size_t width, std::span<const std::size_t> lengths, std::size_t first) {
  Bytes bytes(elements * width);
  bool is_value = false;
  for (std::size_t at = 0, i = first; at < elements; ++i, is_value = !is_value) {
    const std::size_t end = std::min(elements, at + lengths[i % lengths.size()]);
    for (; at < end; ++at)
      if (is_value) bytes[at * width + at % width] = static_cast<std::byte>(1 + at % 250);
  }
  return bytes;
}

// Frames as the CPU's, and what they hold back again.
void require_round_trips(const std::vector<Bytes>& contents, ElementType element, const Setting& setting) {
  std::vector<Input> inputs;
  std::vector<Bytes> bytes;
  std::vector<Frame> frames;
  for (const Bytes& content : contents)
    for (const Codec codec : described)
      inputs.push_back({.content = content, .codec = codec, .element = element});
  require_cpus_frames(inputs, setting);
  bytes.reserve(inputs.size());
  for (const Input& input : inputs) bytes.push_back(frame_of(input.content, input.codec, element));
  for (std::size_t i = 0; i < inputs.size(); ++i) frames.push_back({bytes[i], inputs[i].content.size()});
  REQUIRE(require_cpus_verdicts(frames, setting) == 0);
}

// A frame of one coded block of any bytes: what an encoder with a mistake, or an attacker, could write.
Bytes frame_around(const Bytes& coded, Codec codec, ElementType element, std::size_t content_bytes) {
  const std::size_t extent = round_up(coded.size(), payload_unit), offset = header_bytes + entry_bytes;
  Bytes frame(offset + extent);
  std::copy(coded.begin(), coded.end(), frame.begin() + static_cast<std::ptrdiff_t>(offset));
  write_entry(frame.data(), 0,
              {.checksum = kernels().checksum(frame.data() + offset, extent),
               .kind = BlockKind::coded,
               .bytes = static_cast<std::uint32_t>(coded.size())});
  write_header(frame.data(), {.codec = codec,
                              .element = element,
                              .content_bytes = content_bytes,
                              .payload_bytes = extent,
                              .payload_offset = offset});
  return frame;
}

struct Case {
  const char* name;
  Bytes coded;
  bool is_sound;
};

void require_verdicts(std::span<const Case> cases, Codec codec, ElementType element, std::size_t elements) {
  const std::size_t content_bytes = elements * width_of(element);
  for (const Case& one : cases) {
    INFO(one.name);
    const Bytes bytes = frame_around(one.coded, codec, element, content_bytes);
    const Frame frame{bytes, content_bytes};
    REQUIRE(require_cpus_verdicts({&frame, 1}) == (one.is_sound ? 0 : 1));
  }
}

void append(Bytes& to, const std::vector<int>& bytes) {
  for (const int byte : bytes) to.push_back(static_cast<std::byte>(byte));
}

// An rle block: its number of pairs, the pairs, padding, and so many values of 4 bytes.
Bytes rle_block(std::uint64_t count, const std::vector<int>& pairs, std::size_t values, int padding = 0) {
  Bytes block(8);
  store(block.data(), count);
  append(block, pairs);
  while (block.size() % 8 != 0) append(block, {padding});
  block.resize(block.size() + values * 4, std::byte{7});
  return block;
}

// A csr8 block: counts, columns, and so many values of 4 bytes.
Bytes csr8_block(const std::vector<int>& counts, const std::vector<int>& columns, std::size_t values,
                 int first_padding = 0, int second_padding = 0) {
  Bytes block;
  for (const int count : counts) append(block, {count & 255, count >> 8});
  while (block.size() % 8 != 0) append(block, {first_padding});
  append(block, columns);
  while (block.size() % 8 != 0) append(block, {second_padding});
  block.resize(block.size() + values * 4, std::byte{7});
  return block;
}

}  // namespace

TEST_CASE("RunsOfEveryLengthNear255AreTheCpus") {
  constexpr std::size_t lengths[] = {1, 2, 63, 64, 65, 253, 254, 255, 256, 257, 319, 509, 510, 511, 765, 766};
  for (const ElementType element : element_of_width) {
    std::vector<Bytes> contents;
    for (const std::size_t zeros : lengths)
      for (const std::size_t values : {lengths[zeros % 16], lengths[zeros % 7], std::size_t{1}}) {
        const std::size_t both[] = {zeros, values};
        contents.push_back(runs(2 * (zeros + values) + zeros % 64, width_of(element), both, 0));
        const std::size_t values_first[] = {0, values, zeros, values, zeros};
        contents.push_back(runs(2 * (zeros + values), width_of(element), values_first, 0));
      }
    require_round_trips(contents, element, {.seed = 5});
  }
}

TEST_CASE("RunsOfAnyLengthsAreTheCpus") {
  std::mt19937_64 random(7);
  const int rounds = is_fast() ? 200 : 4;
  for (int round = 0; round < rounds; ++round)
    for (const ElementType element : element_of_width) {
      std::vector<Bytes> contents;
      for (int i = 0; i < 8; ++i) {
        std::vector<std::size_t> lengths(40);
        for (std::size_t& length : lengths) length = 1 + random() % (std::size_t{1} << random() % 11);
        const std::size_t most = block_bytes / width_of(element);
        contents.push_back(
            runs(i == 0 ? most : 1 + random() % most, width_of(element), lengths, random() % 2));
      }
      require_round_trips(contents, element, {.threads = 128U << round % 3, .seed = random()});
    }
}

TEST_CASE("PairsThatNoEncoderWritesAreRefused") {
  constexpr std::size_t elements = 600;
  const Case cases[] = {
      {"sound", rle_block(3, {255, 0, 45, 255, 0, 45}, 300), true},
      {"too few, 255 zeros at the end", rle_block(3, {0, 255, 0, 1, 255, 0}, 256), false},
      {"sound, 255 zeros at the end", rle_block(3, {0, 255, 0, 90, 255, 0}, 345), true},
      {"sound, some zeros at the end", rle_block(4, {255, 0, 45, 200, 50, 40, 10, 0}, 240), true},
      {"no pairs", rle_block(0, {}, 0), false},
      {"an empty pair at the end", rle_block(4, {255, 0, 45, 255, 0, 45, 0, 0}, 300), false},
      {"an empty pair at the beginning", rle_block(4, {0, 0, 255, 0, 45, 255, 0, 45}, 300), false},
      {"zeros that could be one pair's", rle_block(4, {200, 0, 55, 0, 45, 255, 0, 45}, 300), false},
      {"values that could be one pair's", rle_block(4, {255, 0, 45, 200, 0, 55, 0, 45}, 300), false},
      {"too few elements", rle_block(3, {255, 0, 44, 255, 0, 45}, 300), false},
      {"too many elements", rle_block(3, {255, 0, 45, 255, 0, 46}, 301), false},
      {"far too many elements", rle_block(4, {255, 255, 255, 255, 255, 255, 255, 255}, 300), false},
      {"fewer values than the pairs say", rle_block(3, {255, 0, 45, 255, 0, 45}, 299), false},
      {"more values than the pairs say", rle_block(3, {255, 0, 45, 255, 0, 45}, 301), false},
      {"more pairs than there is room for", rle_block(1000, {255, 0, 45, 255, 0, 45}, 300), false},
      {"pairs up to the last byte and one more", rle_block(605, {255, 0, 45, 255, 0, 45}, 300), false},
      {"a count of 2^32 and more", rle_block((std::uint64_t{1} << 32) + 3, {255, 0, 45, 255, 0, 45}, 300),
       false},
      {"a count of 2^63 and more", rle_block((std::uint64_t{1} << 63) + 3, {255, 0, 45, 255, 0, 45}, 300),
       false},
      {"padding that is not zero", rle_block(3, {255, 0, 45, 255, 0, 45}, 300, 1), false},
      {"less than a count", Bytes(4), false},
      {"nothing but a count", rle_block(3, {}, 0), false},
  };
  require_verdicts(cases, Codec::rle, ElementType::f32, elements);
}

TEST_CASE("RowsThatNoEncoderWritesAreRefused") {
  constexpr std::size_t elements = 600;  // rows of 256, 256 and 88
  std::vector<int> full(88);
  std::iota(full.begin(), full.end(), 0);
  std::vector<int> and_one = full;
  and_one.push_back(0);
  const Case cases[] = {
      {"sound", csr8_block({2, 0, 1}, {3, 255, 87}, 3), true},
      {"a column behind the last element", csr8_block({2, 0, 1}, {3, 255, 88}, 3), false},
      {"equal columns", csr8_block({2, 0, 1}, {255, 255, 87}, 3), false},
      {"equal columns, one value for both", csr8_block({2, 0, 1}, {255, 255, 87}, 2), false},
      {"descending columns", csr8_block({2, 0, 1}, {255, 3, 87}, 3), false},
      {"a count in another row", csr8_block({1, 1, 1}, {255, 3, 87}, 3), true},
      {"fewer values than columns", csr8_block({2, 0, 1}, {3, 255, 87}, 2), false},
      {"more values than columns", csr8_block({2, 0, 1}, {3, 255, 87}, 4), false},
      {"a count of 257", csr8_block({257, 0, 1}, {3, 255, 87}, 258), false},
      {"counts up to the end", csr8_block({65535, 65535, 65535}, {3, 255, 87}, 3), false},
      {"counts of 2^16 together", csr8_block({32768, 32768, 3}, {3, 255, 87}, 3), false},
      {"a full row", csr8_block({0, 0, 88}, full, 88), true},
      {"more than a row's, as many values as fit", csr8_block({0, 0, 89}, and_one, 88), false},
      {"more than a row's, and values", csr8_block({0, 0, 89}, and_one, 89), false},
      {"padding behind the counts", csr8_block({2, 0, 1}, {3, 255, 87}, 3, 1), false},
      {"padding behind the columns", csr8_block({2, 0, 1}, {3, 255, 87}, 3, 0, 1), false},
      {"a column too many", csr8_block({2, 0, 1}, {3, 255, 87, 1}, 3), false},
      {"no values", csr8_block({0, 0, 0}, {}, 0), true},
      {"less than the counts", Bytes(5), false},
      {"no more than the counts", csr8_block({2, 0, 1}, {}, 0), false},
  };
  require_verdicts(cases, Codec::csr8, ElementType::f32, elements);
}
