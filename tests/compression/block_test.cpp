// Which kind a block becomes (docs/formats/frame.md, "Which kind a block becomes"), and payloads that
// contradict themselves under a checksum that is right.
#include "compression/block.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "compression/base/bytes.h"
#include "compression/external_codecs.h"
#include "support.h"
#include "walled.h"

namespace terrace::compression::test {
namespace {

BlockKind kind_of(Codec codec, ElementType type, const Bytes& content) {
  return encode_block(kernels(), *all_codecs(codec), type, content, workspace()).entry.kind;
}

// u32 of which so many, spread evenly, are zero.
Bytes with_zeros(std::size_t elements, std::size_t zeros) {
  std::vector<std::uint32_t> all(elements);
  for (std::size_t i = 0; i < elements; ++i)
    all[i] = i * zeros / elements != (i + 1) * zeros / elements
                 ? 0
                 : static_cast<std::uint32_t>(i * 2654435761U | 1);
  const auto bytes = std::as_bytes(std::span(all));
  return {bytes.begin(), bytes.end()};
}

TEST_CASE("KindsFollowTheRulesInTheirOrder") {
  const Bytes zeros(1000), sevens(1000, std::byte{7});
  for (const Codec codec : every_codec) {
    CHECK(kind_of(codec, ElementType::u8, zeros) == BlockKind::zero);
    CHECK(kind_of(codec, ElementType::u8, sevens) == BlockKind::repeat);
    CHECK(kind_of(codec, ElementType::f64, sevens) == BlockKind::repeat);
    CHECK(kind_of(codec, ElementType::u8, Bytes(16, std::byte{7})) != BlockKind::repeat);
    CHECK(kind_of(codec, ElementType::u8, Bytes(17, std::byte{7})) == BlockKind::repeat);
    CHECK(kind_of(codec, ElementType::u32, with_zeros(16384, 8000)) ==
          (codec == Codec::raw ? BlockKind::raw : BlockKind::coded));
  }
}

TEST_CASE("ABlockIsDenseBelowTheShareOfZerosThatAMaskCosts") {
  // 16 groups of 64 are looked at: groups 0, 16, 32 … of 256.
  const auto with_sampled_zeros = [](std::size_t zeros) {
    Bytes content = with_zeros(16384, 8192);
    for (std::size_t group = 0; group < 256; group += 16)
      for (std::size_t i = 0; i < 64; ++i)
        store(content.data() + (group * 64 + i) * 4, std::uint32_t{group / 16 * 64 + i < zeros ? 0U : 5U});
    return content;
  };
  for (const Codec codec : {Codec::zvc, Codec::rle, Codec::csr8}) {
    CHECK(kind_of(codec, ElementType::u32, with_sampled_zeros(31)) == BlockKind::raw);
    CHECK(kind_of(codec, ElementType::u32, with_sampled_zeros(32)) == BlockKind::coded);
  }
  CHECK(kind_of(Codec::zvc_exp, ElementType::u32, with_sampled_zeros(0)) == BlockKind::coded);
  Bytes partial = with_sampled_zeros(0);
  partial.resize(block_bytes - 4);
  CHECK(kind_of(Codec::zvc, ElementType::u32, partial) == BlockKind::coded);  // the rule is for full blocks
}

TEST_CASE("ACodedBlockIsSmallerThanItsContentByAWholeUnit") {
  // 40 elements of 4 bytes: 8 bytes of mask and the values. 35 values make 148 bytes, in an extent of 160:
  // raw.
  CHECK(kind_of(Codec::zvc, ElementType::u32, with_zeros(40, 5)) == BlockKind::raw);
  CHECK(kind_of(Codec::zvc, ElementType::u32, with_zeros(40, 6)) == BlockKind::coded);
}

// Decodes a payload as block of so many elements of a type.
bool decodes(Codec codec, ElementType type, BlockKind kind, const Bytes& payload, std::size_t elements) {
  Bytes extent = payload;
  extent.resize(round_up(payload.size(), payload_unit));
  const Walled in{std::span(extent)}, out(elements * width_of(type));
  std::size_t good = 0;
  for (const Kernels* with : all_kernels()) {
    const Entry entry{with->checksum(extent.data(), extent.size()), 0, kind,
                      static_cast<std::uint32_t>(payload.size())};
    good += decode_block(*with, *all_codecs(codec), type, entry, in.span(), out.span(), workspace());
    REQUIRE(out.holds());
  }
  REQUIRE((good == 0 || good == all_kernels().size()));
  return good > 0;
}

// Integers of any width, one behind the other.
struct Payload {
  Bytes bytes;
  template <typename T>
  Payload& add(T value, std::size_t times = 1) {
    for (; times > 0; --times) {
      bytes.resize(bytes.size() + sizeof value);
      store(bytes.data() + bytes.size() - sizeof value, value);
    }
    return *this;
  }
  Payload& u8(int value, std::size_t times = 1) { return add(static_cast<std::uint8_t>(value), times); }
  Payload& u16(int value, std::size_t times = 1) { return add(static_cast<std::uint16_t>(value), times); }
  Payload& u32(std::uint32_t value, std::size_t times = 1) { return add(value, times); }
  Payload& u64(std::uint64_t value, std::size_t times = 1) { return add(value, times); }
};

TEST_CASE("RepeatedElementsThatDifferAreRefused") {
  Payload same, other;
  same.u32(5, 4);
  other.u32(5, 3).u32(6);
  CHECK(decodes(Codec::zvc, ElementType::u32, BlockKind::repeat, same.bytes, 100));
  CHECK_FALSE(decodes(Codec::zvc, ElementType::u32, BlockKind::repeat, other.bytes, 100));
  CHECK_FALSE(decodes(Codec::zvc, ElementType::u64, BlockKind::repeat, Payload{}.u64(5).u64(6).bytes, 100));
}

TEST_CASE("AZvcPayloadOfAnotherSizeThanItsMaskSaysIsRefused") {
  const auto verdict = [](const Payload& p, std::size_t n) {
    return decodes(Codec::zvc, ElementType::u16, BlockKind::coded, p.bytes, n);
  };
  CHECK(verdict(Payload{}.u64(0b1011).u16(1, 3), 40));
  CHECK_FALSE(verdict(Payload{}.u64(0b1011).u16(1, 2), 40));
  CHECK_FALSE(verdict(Payload{}.u64(0b1011).u16(1, 4), 40));
  CHECK_FALSE(verdict(Payload{}.u64(std::uint64_t{1} << 40).u16(1), 40));  // a bit behind the last element
  CHECK_FALSE(verdict(Payload{}.u32(0b1011).u16(1), 40));                  // less than a mask
  CHECK_FALSE(verdict(Payload{}.u64(~std::uint64_t{0}), 64));
  CHECK(verdict(Payload{}.u64(0b11).u16(0, 2),
                40));  // a value may be zero: not how an encoder writes it, but plain
}

TEST_CASE("AShortMaskThatContradictsItselfIsRefused") {
  const auto verdict = [](const Payload& p) {
    return decodes(Codec::zvc, ElementType::u16, BlockKind::sparse, p.bytes, 200);
  };
  CHECK(verdict(Payload{}.u64(0b1001).u64(1).u64(2).u16(9, 2)));
  CHECK(verdict(Payload{}.u64(0b1111).u64(1, 4).u16(9, 4)));  // longer than the full mask, but a short one
  CHECK_FALSE(verdict(Payload{}.u64(0b1001).u64(1).u64(0).u16(9)));  // a word of zero
  CHECK_FALSE(verdict(Payload{}.u64(0b10000).u64(1).u16(9)));        // a fifth word of four
  CHECK_FALSE(verdict(Payload{}.u64(0b1000).u64(1 << 8).u16(9)));    // element 200 of 200
  CHECK_FALSE(verdict(Payload{}.u64(0b1111).u64(1)));                // words missing
  CHECK_FALSE(verdict(Payload{}.u32(1)));
}

// A header of zvc_exp's.
constexpr std::uint32_t group(unsigned base, unsigned width, unsigned sign, unsigned trail) {
  return base | width << 11 | sign << 15 | trail << 16;
}

TEST_CASE("AZvcExpGroupOutOfRangeIsRefused") {
  // bf16: 8 exponent bits, 7 of mantissa. Four values.
  const auto verdict = [](std::uint32_t header, std::size_t bytes) {
    return decodes(Codec::zvc_exp, ElementType::bf16, BlockKind::coded,
                   Payload{}.u64(15).u32(header).u8(0x77, bytes).bytes, 64);
  };
  CHECK(verdict(group(120, 2, 0, 3), 3));  // 6 bits each
  CHECK_FALSE(verdict(group(120, 2, 0, 3), 2));
  CHECK_FALSE(verdict(group(120, 2, 0, 3), 4));
  CHECK(verdict(group(255, 8, 1, 0), 8));  // exponents wrap around
  CHECK(
      verdict(group(0, 0, 0, 7), 0));  // nothing stored: all are 0.0, which an encoder would not call values
  CHECK_FALSE(verdict(group(256, 2, 0, 3), 3));
  CHECK_FALSE(verdict(group(120, 9, 0, 3), 7));
  CHECK_FALSE(verdict(group(120, 2, 0, 8), 1));
  for (unsigned bit = 22; bit < 32; ++bit) CHECK_FALSE(verdict(group(120, 2, 0, 3) | 1U << bit, 3));
}

TEST_CASE("AZvcExpGroupWithoutValuesHasAnEmptyHeader") {
  const auto verdict = [](std::uint32_t header) {
    return decodes(Codec::zvc_exp, ElementType::u8, BlockKind::coded,
                   Payload{}.u64(0, 16).u64(1).u32(header).u32(group(0, 0, 0, 0)).u8(9).bytes, 1088);
  };
  CHECK(verdict(0));
  CHECK_FALSE(verdict(1));
  CHECK_FALSE(verdict(1U << 31));
}

TEST_CASE("RleRunsThatAreNotTheirMasksAreRefused") {
  const auto verdict = [](std::initializer_list<int> pairs, std::size_t values, std::size_t n) {
    Payload p;
    p.u64(pairs.size() / 2);
    for (const int run : pairs) p.u8(run);
    p.u8(0, round_up(pairs.size(), 8) - pairs.size()).u16(3, values);
    return decodes(Codec::rle, ElementType::u16, BlockKind::coded, p.bytes, n);
  };
  CHECK(verdict({0, 3, 50, 0}, 3, 53));
  CHECK(verdict({255, 0, 40, 5}, 5, 300));
  CHECK(verdict({45, 255, 0, 100}, 355, 400));
  CHECK(verdict({255, 45}, 45, 300));
  CHECK_FALSE(verdict({0, 3, 50, 0}, 4, 53));        // more values than runs say
  CHECK_FALSE(verdict({0, 3, 50, 0}, 2, 53));        // fewer
  CHECK_FALSE(verdict({0, 3, 49, 0}, 3, 53));        // not all elements
  CHECK_FALSE(verdict({0, 3, 51, 0}, 3, 53));        // more than all
  CHECK_FALSE(verdict({0, 3, 0, 2, 48, 0}, 5, 53));  // values go on behind a run that could have held them
  CHECK_FALSE(verdict({20, 0, 30, 3}, 3, 53));       // zeros go on
  CHECK_FALSE(verdict({50, 3, 0, 0}, 3, 53));        // nothing
  CHECK_FALSE(verdict({}, 0, 53));
}

TEST_CASE("RlePairsThatReachBeyondTheBlockAreRefused") {
  for (const std::uint64_t pairs :
       {std::uint64_t{2}, std::uint64_t{53}, std::uint64_t{54}, std::uint64_t{1} << 32, ~std::uint64_t{0}})
    CHECK_FALSE(decodes(Codec::rle, ElementType::u16, BlockKind::coded,
                        Payload{}.u64(pairs).u8(50).u8(3).u8(0, 6).u16(3, 3).bytes, 53));
  CHECK_FALSE(decodes(Codec::rle, ElementType::u16, BlockKind::coded, Payload{}.u32(1).bytes, 53));
}

// Runs that the block has no elements for: their bits would reach a megabyte beyond the mask.
TEST_CASE("RleRunsOfMillionsOfElementsAreRefused") {
  for (const bool zeros : {false, true}) {
    Payload p;
    p.u64(30000);
    for (int i = 0; i < 30000; ++i) p.u8(zeros ? 255 : 0).u8(zeros ? 0 : 255);
    CHECK_FALSE(decodes(Codec::rle, ElementType::u8, BlockKind::coded, p.bytes, block_bytes));
  }
}

TEST_CASE("Csr8RowsThatAreNotTheirMasksAreRefused") {
  // 300 elements: rows of 256 and of 44. Counts, columns, values, each part filled up to eight bytes.
  const auto verdict = [](int first, int second, std::initializer_list<int> columns, std::size_t values) {
    Payload p;
    p.u16(first).u16(second).u32(0);
    for (const int column : columns) p.u8(column);
    p.u8(0, round_up(columns.size(), 8) - columns.size()).u16(3, values);
    return decodes(Codec::csr8, ElementType::u16, BlockKind::coded, p.bytes, 300);
  };
  CHECK(verdict(2, 1, {0, 255, 43}, 3));
  CHECK(verdict(0, 0, {}, 0));
  CHECK_FALSE(verdict(2, 1, {0, 255, 44}, 3));  // behind the last element
  CHECK_FALSE(verdict(2, 1, {255, 0, 43}, 3));  // not ascending
  CHECK_FALSE(verdict(2, 1, {7, 7, 43}, 3));    // twice
  CHECK_FALSE(verdict(2, 1, {0, 255, 43}, 2));
  CHECK_FALSE(verdict(2, 1, {0, 255, 43}, 4));
  CHECK_FALSE(verdict(65535, 1, {0, 255, 43}, 3));
  CHECK_FALSE(verdict(257, 0, {0}, 3));
  CHECK_FALSE(decodes(Codec::csr8, ElementType::u16, BlockKind::coded, Payload{}.u16(1).bytes, 300));
}

TEST_CASE("PaddingWithinAPayloadIsZero") {
  CHECK_FALSE(decodes(Codec::rle, ElementType::u16, BlockKind::coded,
                      Payload{}.u64(1).u8(50).u8(3).u8(0, 5).u8(1).u16(3, 3).bytes, 53));
  CHECK_FALSE(decodes(Codec::csr8, ElementType::u16, BlockKind::coded,
                      Payload{}.u16(1).u16(0).u32(1).u8(9).u8(0, 7).u16(3).bytes, 300));
  CHECK_FALSE(decodes(Codec::csr8, ElementType::u16, BlockKind::coded,
                      Payload{}.u16(1).u16(0).u32(0).u8(9).u8(0, 6).u8(1).u16(3).bytes, 300));
}

TEST_CASE("ForeignPayloadsOfTheWrongLengthAreRefused") {
  for (const Codec codec : {Codec::lz4, Codec::zstd}) {
    const Bytes content = with_zeros(1000, 900);
    const EncodedBlock block =
        encode_block(kernels(), *all_codecs(codec), ElementType::u32, content, workspace());
    REQUIRE(block.entry.kind == BlockKind::coded);
    const Bytes payload(block.extent.begin(), block.extent.begin() + block.entry.bytes);
    CHECK(decodes(codec, ElementType::u32, BlockKind::coded, payload, 1000));
    CHECK_FALSE(decodes(codec, ElementType::u32, BlockKind::coded, payload, 999));
    CHECK_FALSE(decodes(codec, ElementType::u32, BlockKind::coded, payload, 1001));
    CHECK_FALSE(
        decodes(codec, ElementType::u32, BlockKind::coded, Bytes(payload.begin(), payload.end() - 1), 1000));
    Bytes longer = payload;
    longer.push_back(std::byte{1});
    CHECK_FALSE(decodes(codec, ElementType::u32, BlockKind::coded, longer, 1000));
  }
}

TEST_CASE("ABlockOfTwoZstdFramesIsRefused") {
  const Bytes content = with_zeros(1000, 900);
  const EncodedBlock block =
      encode_block(kernels(), *all_codecs(Codec::zstd), ElementType::u32, content, workspace());
  Bytes payload(block.extent.begin(), block.extent.begin() + block.entry.bytes);
  CHECK(decodes(Codec::zstd, ElementType::u32, BlockKind::coded, payload, 1000));
  const auto skipped = Payload{}.u32(0x184d2a50).u32(4).u32(7).bytes;  // four bytes to be skipped
  payload.insert(payload.begin(), skipped.begin(), skipped.end());
  CHECK_FALSE(decodes(Codec::zstd, ElementType::u32, BlockKind::coded, payload, 1000));
}

}  // namespace
}  // namespace terrace::compression::test
