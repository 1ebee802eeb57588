// The promises of a codec, for every codec, element type and set of kernels: one function each. Content and
// frame end at inaccessible pages and begin at odd addresses, so that a read or a write too far, or one that
// wants alignment, does not go unnoticed.
#include <catch2/catch.hpp>
#include <cstring>

#include "compression/external_codecs.h"
#include "flush_denormals.h"
#include "support.h"
#include "walled.h"

namespace terrace::compression::test {
namespace {

std::vector<std::size_t> edge_sizes(ElementType type) {
  const std::size_t block = block_bytes / width_of(type);
  std::vector<std::size_t> sizes = {0,    1,         2,     17,        1023,          1024,
                                    1025, block - 1, block, block + 1, 6 * block + 37};
  for (std::size_t n = 31; n <= 65; ++n) sizes.push_back(n);
  return sizes;
}

bool is_worth_running(Codec codec, const Kernels& with) {
  return !is_external(codec) || &with == &kernels();  // the others have no kernels of ours
}

struct Subject {
  Codec codec;
  ElementType type;
  const Kernels& with;
};

// Decodes every block alone, last first, into memory that ends with the block.
bool blocks_decode_alone(const Subject& subject, std::span<const std::byte> frame,
                         std::span<const std::byte> content) {
  Header header;
  if (read_header(frame, header) != FrameError::none || check_table(frame, header) != FrameError::none)
    return false;
  for (std::uint64_t i = header.blocks(); i-- > 0;) {
    const Walled block(header.content_of(i));
    if (decompress_block(frame, header, i, block.span(), workspace(), all_codecs, subject.with) !=
        FrameError::none)
      return false;
    if (!block.equals(content.subspan(i * block_bytes, block.size())) || !block.holds()) return false;
  }
  return true;
}

// Empty if all is well. `expected` is the frame that the scalar kernels make.
std::string fault_of(const Subject& subject, const Bytes& bytes, const Bytes& expected, bool block_wise) {
  const Walled content{std::span(bytes)};
  const Walled room(frame_bound(bytes.size()));
  const FrameOptions options{subject.codec, subject.type, 4};
  const Compressed made =
      compress(content.span(), room.span(), options, workspace(), all_codecs, subject.with);
  if (made.error != FrameError::none) return describe(made.error);
  if (made.bytes > room.size()) return "a frame larger than frame_bound()";
  if (!room.holds()) return "compress wrote before its destination";
  const Walled frame(room.span().first(made.bytes));  // nothing behind it
  if (!frame.equals(expected)) return "other bytes than the scalar kernels'";
  const Walled back(bytes.size());
  const FrameError error = decompress(frame.span(), back.span(), workspace(), all_codecs, subject.with);
  if (error != FrameError::none) return describe(error);
  if (!back.equals(bytes)) return "other content";
  if (!back.holds()) return "decompress wrote before its destination";
  return !block_wise || blocks_decode_alone(subject, frame.span(), bytes) ? ""
                                                                          : "a block does not decode alone";
}

// Returns how many sets of kernels were tried.
int check_content(Codec codec, ElementType type, const std::string& name, const Bytes& content) {
  const Bytes expected = compressed(content, {codec, type, 4}, scalar_kernels()).frame;
  int tried = 0;
  for (const Kernels* with : all_kernels()) {
    if (!is_worth_running(codec, *with)) continue;
    const std::string fault = fault_of({codec, type, *with}, content, expected, content.size() > 1024);
    CAPTURE(name_of(codec), name_of(type), with->name, name, content.size(), fault);
    if (!fault.empty()) FAIL_CHECK();
    ++tried;
  }
  return tried;
}

TEST_CASE("EveryContentComesBackFromEveryCodecTypeAndKernel") {
  const FlushDenormals flushed;
  const Codec codec = GENERATE(from_range(std::begin(every_codec), std::end(every_codec)));
  SECTION(std::string(name_of(codec))) {
    int tried = 0;
    for (const ElementType type : every_type)
      for (const Pattern& pattern : patterns())
        for (const std::size_t n : edge_sizes(type))
          tried += check_content(codec, type, pattern.name, content_of(pattern, type, n));
    CHECK(tried > 1000);
  }
}

TEST_CASE("EveryDensityComesBack") {
  std::mt19937_64 random(5);
  int tried = 0;
  for (unsigned per_mille = 0; per_mille <= 1000; per_mille += 40)
    for (const ElementType type : every_type)
      for (const Codec codec : every_codec) {
        const Bytes content = random_content(type, 5000 + random() % 100, per_mille, random);
        tried += check_content(codec, type, std::to_string(per_mille) + " of 1000", content);
      }
  CHECK(tried > 1000);
}

// Frames above a mebibyte are written and read by other loops: past the caches, with what comes next fetched
// ahead.
TEST_CASE("LargeTensorsComeBack") {
  const auto every = patterns();
  int tried = 0;
  for (const Codec codec : every_codec)
    for (const ElementType type : {ElementType::u8, ElementType::bf16, ElementType::f32, ElementType::f64})
      for (const std::size_t pattern : {std::size_t{1}, std::size_t{12}, every.size() - 1}) {
        const std::size_t elements = std::size_t{2'500'000} / width_of(type) + 1;  // ends, begins anywhere
        tried += check_content(codec, type, every[pattern].name, content_of(every[pattern], type, elements));
      }
  CHECK(tried >= 84);
}

// `shift` bytes behind where they would be aligned; the frame lies elsewhere again.
void check_shifted(const Subject& subject, const Bytes& content, std::size_t shift) {
  Bytes from(content.size() + shift), frame(frame_bound(content.size()) + shift + 2), to(from.size());
  std::copy(content.begin(), content.end(), from.begin() + static_cast<std::ptrdiff_t>(shift));
  const auto room = std::span(frame).subspan(shift + 2);
  const Compressed made = compress(std::span(from).subspan(shift), room, {subject.codec, subject.type, 4},
                                   workspace(), all_codecs, subject.with);
  CAPTURE(name_of(subject.codec), name_of(subject.type), subject.with.name, content.size(), shift);
  REQUIRE(made.error == FrameError::none);
  const auto made_frame = room.first(made.bytes);
  CHECK(std::ranges::equal(made_frame,
                           compressed(content, {subject.codec, subject.type, 4}, subject.with).frame));
  REQUIRE(decompress(made_frame, std::span(to).subspan(shift), workspace(), all_codecs, subject.with) ==
          FrameError::none);
  CHECK(std::memcmp(content.data(), to.data() + shift, content.size()) == 0);
}

TEST_CASE("NothingNeedsToBeAligned") {
  std::mt19937_64 random(8);
  for (const Codec codec : every_codec)
    for (const ElementType type : every_type)
      for (const Kernels* with : all_kernels())
        for (const std::size_t shift : {1, 3, 7})
          check_shifted({codec, type, *with}, random_content(type, 9000, 300, random), shift);
}

// Blocks of every kind on their way past the caches.
TEST_CASE("NothingLargeNeedsToBeAligned") {
  std::mt19937_64 random(9);
  for (const ElementType type : {ElementType::u8, ElementType::bf16, ElementType::f32, ElementType::f64}) {
    Bytes content;
    for (const unsigned per_mille : {380U, 1000U, 0U, 20U, 700U, 990U}) {
      const Bytes part = random_content(type, 3 * block_bytes / width_of(type) + 100, per_mille, random);
      content.insert(content.end(), part.begin(), part.end());
    }
    for (const Codec codec : every_codec)
      for (const Kernels* with : all_kernels())
        for (const std::size_t shift : {1, 4, 31})
          if (is_worth_running(codec, *with)) check_shifted({codec, type, *with}, content, shift);
  }
}

TEST_CASE("TheWorstContentReachesTheBoundExactly") {
  std::mt19937_64 random(6);
  for (const Codec codec : every_codec)
    for (const ElementType type : every_type)
      for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, std::size_t{1000}, block_bytes - 8,
                                      block_bytes, block_bytes + 8, 3 * block_bytes + 1000})
        for (const unsigned alignment : {4U, 12U}) {
          Bytes content(bytes);
          for (std::byte& b : content) b = static_cast<std::byte>(random() % 255 + 1);
          const Framed made = compressed(content, {codec, type, alignment});
          CAPTURE(name_of(codec), name_of(type), bytes, alignment);
          CHECK(made.frame.size() == frame_bound(bytes, alignment));
        }
}

TEST_CASE("TheBoundIsContentHeaderAndSixteenBytesABlock") {
  for (const std::uint64_t bytes : {0ULL, 1ULL, 65535ULL, 65536ULL, 65537ULL, 1ULL << 36})
    CHECK(frame_bound(bytes) == bytes + 64 + 16 * ((bytes + 65535) / 65536));
}

TEST_CASE("ZvcIsAsSmallAsItsFormulaSays") {
  std::mt19937_64 random(7);
  for (const unsigned per_mille : {20U, 200U, 380U, 640U, 900U}) {
    for (const ElementType type : {ElementType::u8, ElementType::f16, ElementType::f32, ElementType::f64}) {
      const Bytes content = random_content(type, (std::size_t{1} << 20) / width_of(type), per_mille, random);
      std::size_t values = 0;
      for (std::size_t at = 0; at < content.size(); at += width_of(type))
        values += std::any_of(&content[at], &content[at] + width_of(type),
                              [](std::byte b) { return b != std::byte{0}; });
      const std::size_t mask = content.size() / width_of(type) / 8;
      const auto ideal = static_cast<double>(values * width_of(type) + mask);
      const double made = static_cast<double>(compressed(content, {Codec::zvc, type, 4}).frame.size());
      CAPTURE(per_mille, name_of(type));
      CHECK(made <= std::min(ideal, static_cast<double>(content.size())) / 0.995);
    }
  }
}

}  // namespace
}  // namespace terrace::compression::test
