// Frames that are not as they should be: each field wrong in each way gives the error that says so, and no
// bit can change unnoticed.
#include "compression/frame.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <set>

#include "compression/base/bytes.h"
#include "compression/external_codecs.h"
#include "support.h"
#include "walled.h"

namespace terrace::compression::test {
namespace {

// Five blocks in few bytes: zero, repeat, zero, coded (sparse where the codec has it) and a last short one.
Bytes small_content(ElementType type) {
  Bytes content(4 * block_bytes + 240);
  std::fill_n(content.begin() + block_bytes, block_bytes, std::byte{0x41});
  for (std::size_t i = 0; i < 9; ++i) content[3 * block_bytes + i * 7000] = static_cast<std::byte>(i + 1);
  for (std::size_t i = 0; i < 240; i += 3 * width_of(type))
    content[4 * block_bytes + i] = static_cast<std::byte>(i / 2 + 1);
  return content;
}

Bytes small_frame(Codec codec, ElementType type = ElementType::f32, unsigned alignment_log2 = 4) {
  return compressed(small_content(type), {codec, type, alignment_log2}).frame;
}

FrameError verdict(std::span<const std::byte> frame, std::size_t content_bytes = 4 * block_bytes + 240,
                   CodecSet codecs = all_codecs) {
  static const Walled content(4 * block_bytes + 240);
  if (content_bytes > content.size()) return FrameError::wrong_size;
  return decompress(frame, content.span().last(content_bytes), workspace(), codecs);
}

template <typename T>
Bytes with(Bytes frame, std::size_t at, T value) {
  store(frame.data() + at, value);
  return frame;
}

Bytes header_repaired(Bytes frame) {
  repair_header(frame);
  return frame;
}

Bytes table_repaired(Bytes frame) {
  repair_table(frame);
  return header_repaired(std::move(frame));
}

constexpr std::size_t entry_at(std::size_t i) { return header_bytes + i * entry_bytes; }

TEST_CASE("EachHeaderFieldIsChecked") {
  const Bytes good = small_frame(Codec::zvc);
  REQUIRE(verdict(good) == FrameError::none);
  CHECK(verdict(header_repaired(with<std::uint8_t>(good, 0, 'X'))) == FrameError::not_a_frame);
  for (const int version : {0, 2, 255})
    CHECK(verdict(header_repaired(with(good, 4, static_cast<std::uint8_t>(version)))) ==
          FrameError::unknown_version);
  for (const int codec : {codec_count, 127, 255})
    CHECK(verdict(header_repaired(with(good, 5, static_cast<std::uint8_t>(codec)))) ==
          FrameError::bad_header);
  for (const int type : {element_type_count, 128, 255})
    CHECK(verdict(header_repaired(with(good, 6, static_cast<std::uint8_t>(type)))) == FrameError::bad_header);
  for (const int alignment : {0, 3, 5, 22, 63, 64, 255})
    CHECK(verdict(header_repaired(with(good, 7, static_cast<std::uint8_t>(alignment)))) ==
          FrameError::bad_header);
  for (const std::uint64_t size :
       {max_content_bytes + 4, ~std::uint64_t{0} - 3, ~std::uint64_t{0}, std::uint64_t{2}})
    CHECK(verdict(header_repaired(with(good, 8, size))) == FrameError::bad_header);
  for (const std::uint64_t size : {4 * block_bytes + 244, ~std::uint64_t{0}, std::uint64_t{1} << 63})
    CHECK(verdict(header_repaired(with(good, 16, size))) == FrameError::bad_header);
  for (const std::uint64_t offset : {0ULL, 64ULL, 128ULL, 145ULL, 160ULL, ~0ULL})
    CHECK(verdict(header_repaired(with(good, 24, offset))) == FrameError::bad_header);
  CHECK(verdict(header_repaired(with<std::uint64_t>(good, 32, 0))) == FrameError::bad_table);
  for (std::size_t at = 40; at < 56; ++at)
    CHECK(verdict(header_repaired(with<std::uint8_t>(good, at, 1))) == FrameError::bad_header);
  CHECK(verdict(with<std::uint64_t>(good, 56, 0)) == FrameError::bad_header);
}

TEST_CASE("AFieldThatContradictsTheRestIsRefused") {
  const Bytes good = small_frame(Codec::zvc);
  const auto payload = load<std::uint64_t>(good.data() + 16);
  CHECK(verdict(header_repaired(with(good, 16, payload - 1))) == FrameError::bad_table);
  CHECK(verdict(header_repaired(with(good, 16, payload + 1))) == FrameError::truncated);
  Bytes longer = good;
  longer.resize(good.size() + 16);
  CHECK(verdict(longer) == FrameError::none);  // what lies behind a frame is not part of it
  CHECK(verdict(header_repaired(with(longer, 16, payload + 1))) == FrameError::bad_table);
  CHECK(verdict(good, 4 * block_bytes + 236) == FrameError::wrong_size);
  // The number of blocks stays, so the table does; the last block no longer is what its entry says.
  CHECK(verdict(header_repaired(with<std::uint64_t>(good, 8, 4 * block_bytes + 16)), 4 * block_bytes + 16) ==
        FrameError::bad_table);
}

TEST_CASE("EachEntryFieldIsChecked") {
  const Bytes good = small_frame(Codec::zvc, ElementType::f32, 8);
  const auto entry = [&good](std::size_t i, auto change) {
    Entry changed = read_entry(good, i);
    change(changed);
    Bytes frame = good;
    write_entry(frame.data(), i, changed);
    return verdict(table_repaired(std::move(frame)));
  };
  REQUIRE(entry(0, [](Entry&) {}) == FrameError::none);
  REQUIRE(read_entry(good, 3).kind == BlockKind::sparse);
  REQUIRE(read_entry(good, 4).kind == BlockKind::coded);
  CHECK(entry(0, [](Entry& e) { e.checksum = 1; }) == FrameError::bad_table);
  CHECK(entry(0, [](Entry& e) { e.bytes = 1; }) == FrameError::bad_table);
  CHECK(entry(1, [](Entry& e) { e.bytes = 15; }) == FrameError::bad_table);
  CHECK(entry(1, [](Entry& e) { e.bytes = 32; }) == FrameError::bad_table);
  CHECK(entry(1, [](Entry& e) { e.checksum ^= 1; }) == FrameError::bad_block);
  CHECK(entry(4, [](Entry& e) { e.checksum ^= std::uint64_t{1} << 63; }) == FrameError::bad_block);
  for (const std::uint32_t offset : {0U, 2U, 0xffffffffU})
    CHECK(entry(2, [&](Entry& e) { e.offset_units = offset; }) == FrameError::bad_table);
  for (const int kind : {0, 5, 6, 255})
    CHECK(entry(4, [&](Entry& e) { e.kind = static_cast<BlockKind>(kind); }) == FrameError::bad_table);
  for (const std::uint32_t bytes : {0U, 225U, 240U, 65536U, 0xffffffU})
    CHECK(entry(4, [&](Entry& e) { e.bytes = bytes; }) == FrameError::bad_table);
  CHECK(entry(4, [](Entry& e) { e.kind = BlockKind::raw, e.bytes = 240; }) ==
        FrameError::bad_table);                                              // reaches too far
  CHECK(entry(4, [](Entry& e) { e.bytes -= 1; }) == FrameError::bad_block);  // within the same extent
}

TEST_CASE("KindsThatACodecDoesNotHaveAreRefused") {
  for (const Codec codec : {Codec::rle, Codec::csr8, Codec::lz4, Codec::zstd}) {
    Bytes frame = small_frame(codec);
    Entry entry = read_entry(frame, 3);
    REQUIRE(entry.kind == BlockKind::coded);
    entry.kind = BlockKind::sparse;
    write_entry(frame.data(), 3, entry);
    CHECK(verdict(table_repaired(frame)) == FrameError::bad_table);
  }
  Bytes frame = small_frame(Codec::zvc);
  const auto as_raw = with(frame, 5, static_cast<std::uint8_t>(Codec::raw));
  CHECK(verdict(header_repaired(as_raw)) == FrameError::bad_table);
}

TEST_CASE("ARepeatOfBlocksNoLongerThanItselfIsRefused") {
  const Bytes content(16, std::byte{7});
  Bytes frame = compressed(content, {Codec::zvc, ElementType::u8, 4}).frame;
  Entry entry = read_entry(frame, 0);
  REQUIRE(entry.kind == BlockKind::raw);
  entry.kind = BlockKind::repeat;
  write_entry(frame.data(), 0, entry);
  CHECK(verdict(table_repaired(frame), 16) == FrameError::bad_table);
}

TEST_CASE("ZerosBetweenTableAndPayloadAreChecked") {
  const Bytes good = small_frame(Codec::zvc, ElementType::f32, 12);
  for (const std::size_t at : {entry_at(5), std::size_t{2000}, std::size_t{4095}}) {
    CHECK(verdict(with<std::uint8_t>(good, at, 1)) == FrameError::bad_table);
    CHECK(verdict(table_repaired(with<std::uint8_t>(good, at, 1))) == FrameError::bad_table);
  }
}

TEST_CASE("PaddingOfABlockIsChecked") {
  Bytes frame = small_frame(Codec::zvc);
  const Entry entry = read_entry(frame, 4);
  REQUIRE(entry.extent() > entry.bytes);
  frame.back() = std::byte{1};
  CHECK(verdict(frame) == FrameError::bad_block);
  repair_blocks(frame);
  CHECK(verdict(table_repaired(frame)) == FrameError::bad_block);
}

TEST_CASE("TruncatedFrameIsRefused") {
  for (const Codec codec : every_codec) {
    if (codec == Codec::raw) continue;
    const Bytes frame = small_frame(codec);
    std::size_t wrong = 0;
    for (std::size_t bytes = 0; bytes < frame.size(); ++bytes) {
      const Walled cut{std::span(frame).first(bytes)};
      wrong += verdict(cut.span()) != FrameError::truncated;
    }
    CAPTURE(name_of(codec));
    CHECK(wrong == 0);
  }
}

TEST_CASE("TruncatedRawFrameIsRefused") {
  Bytes content(300);
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<std::byte>(i + 1);
  const Bytes frame = compressed(content, {Codec::raw, ElementType::u8, 4}).frame;
  std::size_t wrong = 0;
  for (std::size_t bytes = 0; bytes < frame.size(); ++bytes)
    wrong += verdict(Walled(std::span(frame).first(bytes)).span(), 300) != FrameError::truncated;
  CHECK(wrong == 0);
}

void check_flips(const Bytes& good, std::size_t content_bytes) {
  Bytes frame = good;
  REQUIRE(verdict(frame, content_bytes) == FrameError::none);
  std::size_t unnoticed = 0;
  for (std::size_t bit = 0; bit < frame.size() * 8; ++bit) {
    frame[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    unnoticed += verdict(frame, content_bytes) == FrameError::none;
    frame[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
  }
  CHECK(unnoticed == 0);
}

TEST_CASE("EverySingleFlippedBitIsNoticed") {
  for (const Codec codec : every_codec) {
    CAPTURE(name_of(codec));
    if (codec != Codec::raw) check_flips(small_frame(codec), 4 * block_bytes + 240);
    std::mt19937_64 random(3);
    const Bytes content = random_content(ElementType::f16, 150, 400, random);
    check_flips(compressed(content, {codec, ElementType::f16, 8}).frame, content.size());
    check_flips(compressed({}, {codec, ElementType::f16, 4}).frame, 0);
  }
}

TEST_CASE("BurstsOfUpTo32BitsAreNoticed") {
  std::mt19937_64 random(4);
  for (const Codec codec : every_codec) {
    const Bytes content = random_content(ElementType::bf16, 400, 400, random);
    const Bytes good = compressed(content, {codec, ElementType::bf16, 4}).frame;
    std::size_t unnoticed = 0;
    for (int i = 0; i < 20000; ++i) {
      Bytes frame = good;
      std::uint64_t burst = (random() | 1) & ((std::uint64_t{1} << (1 + random() % 32)) - 1);
      for (std::size_t bit = random() % (frame.size() * 8 - 32); burst != 0; ++bit, burst >>= 1)
        if ((burst & 1) != 0) frame[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
      unnoticed += verdict(frame, content.size()) == FrameError::none;
    }
    CAPTURE(name_of(codec));
    CHECK(unnoticed == 0);
  }
}

TEST_CASE("CallersMistakesAreTold") {
  Bytes content(100), room(1000);
  const auto error = [&](std::size_t bytes, FrameOptions options, std::size_t space) {
    return compress(std::span(content).first(bytes), std::span(room).first(space), options, workspace())
        .error;
  };
  CHECK(error(100, {Codec::zvc, ElementType::f32, 4}, 180) == FrameError::none);
  CHECK(error(100, {Codec::zvc, ElementType::f32, 4}, 179) == FrameError::too_small);
  CHECK(error(99, {Codec::zvc, ElementType::f32, 4}, 1000) == FrameError::bad_argument);
  CHECK(error(100, {Codec::zvc, static_cast<ElementType>(element_type_count), 4}, 1000) ==
        FrameError::bad_argument);
  CHECK(error(100, {Codec::zvc, ElementType::f32, 3}, 1000) == FrameError::bad_argument);
  CHECK(error(100, {Codec::zvc, ElementType::f32, 22}, 1000) == FrameError::bad_argument);
  CHECK(error(100, {static_cast<Codec>(codec_count), ElementType::f32, 4}, 1000) ==
        FrameError::codec_missing);
  CHECK(error(100, {Codec::lz4, ElementType::f32, 4}, 1000) == FrameError::codec_missing);
  CHECK(verdict(small_frame(Codec::zstd), 4 * block_bytes + 240, own_codecs) == FrameError::codec_missing);
}

TEST_CASE("ABlockThatDoesNotExistOrDoesNotFitIsRefused") {
  const Bytes frame = small_frame(Codec::zvc);
  Header header;
  REQUIRE(read_header(frame, header) == FrameError::none);
  REQUIRE(header.blocks() == 5);
  Bytes content(block_bytes);
  CHECK(decompress_block(frame, header, 4, std::span(content).first(240), workspace()) == FrameError::none);
  CHECK(decompress_block(frame, header, 4, std::span(content).first(239), workspace()) ==
        FrameError::wrong_size);
  CHECK(decompress_block(frame, header, 5, std::span(content).first(240), workspace()) ==
        FrameError::wrong_size);
  CHECK(decompress_block(frame, header, ~std::uint64_t{0}, content, workspace()) == FrameError::wrong_size);
  CHECK(decompress_block(std::span(frame).first(frame.size() - 1), header, 4, std::span(content).first(240),
                         workspace()) == FrameError::truncated);
}

TEST_CASE("AHeaderThatIsRefusedLeavesTheCallersAlone") {
  Bytes frame = small_frame(Codec::zvc);
  frame[9] ^= std::byte{1};
  Header header{.codec = Codec::rle, .element = ElementType::u16, .content_bytes = 77};
  REQUIRE(read_header(frame, header) == FrameError::bad_header);
  CHECK((header.codec == Codec::rle && header.element == ElementType::u16 && header.content_bytes == 77));
}

TEST_CASE("EveryErrorIsDescribedInItsOwnWords") {
  std::set<std::string> texts;
  for (int i = 0; i <= static_cast<int>(FrameError::codec_failed); ++i)
    texts.insert(describe(static_cast<FrameError>(i)));
  CHECK(texts.size() == 12);
}

}  // namespace
}  // namespace terrace::compression::test
