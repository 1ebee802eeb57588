// Delayed precision reduction: f32 in 16, 10 or 8 bits. The formats' arithmetic is number.h's; here is
// the packing.
#include "compression/gist/elements.h"
#include "compression/gist/gist.h"
#include "compression/gist/number.h"

namespace terrace::compression::gist {
namespace {

constexpr NumberFormat binary16 = format_of(ElementType::f16);
constexpr NumberFormat gist10 = {5, 4, true};
constexpr NumberFormat e4m3 = format_of(ElementType::f8e4m3);

constexpr std::size_t per_word =
    3;  // dpr10: bits 0-9, 10-19, 20-29 of a little-endian word; 30 and 31 are zero

template <typename Code>
void reduce_plain(const NumberFormat& format, std::span<const std::byte> f32, std::byte* reduced) {
  for (std::size_t i = 0; i < f32.size() / 4; ++i)
    store(reduced, i,
          static_cast<Code>(encode(format, load<std::uint32_t>(f32.data(), i), Overflow::saturate)));
}

template <typename Code>
void restore_plain(const NumberFormat& format, std::span<const std::byte> reduced, std::byte* f32) {
  for (std::size_t i = 0; i < reduced.size() / sizeof(Code); ++i)
    store(f32, i, decode(format, load<Code>(reduced.data(), i)));
}

void reduce_threes(std::span<const std::byte> f32, std::byte* reduced) {
  const std::size_t n = f32.size() / 4;
  for (std::size_t first = 0, word = 0; first < n; first += per_word, ++word) {
    std::uint32_t codes = 0;
    for (std::size_t i = 0; i < per_word && first + i < n; ++i)
      codes |= encode(gist10, load<std::uint32_t>(f32.data(), first + i), Overflow::saturate) << (10 * i);
    store(reduced, word, codes);
  }
}

void restore_threes(std::span<const std::byte> reduced, std::span<std::byte> f32) {
  for (std::size_t i = 0; i < f32.size() / 4; ++i) {
    const auto word = load<std::uint32_t>(reduced.data(), i / per_word);
    store(f32.data(), i, decode(gist10, word >> (10 * (i % per_word)) & 0x3ff));
  }
}

// Bits 30 and 31 of every word, and those of the codes that the last word lacks.
bool spare_bits_are_zero(std::span<const std::byte> reduced, std::size_t n) {
  for (std::size_t word = 0; word < reduced.size() / 4; ++word) {
    const std::size_t codes = n - word * per_word < per_word ? n - word * per_word : per_word;
    if (load<std::uint32_t>(reduced.data(), word) >> (10 * codes) != 0) return false;
  }
  return true;
}

bool sizes_fit(Precision precision, std::size_t f32, std::size_t reduced) {
  return f32 % 4 == 0 && reduced == reduced_bytes(precision, f32 / 4);
}

}  // namespace

Error reduce(Precision precision, std::span<const std::byte> f32, std::span<std::byte> reduced) {
  if (!sizes_fit(precision, f32.size(), reduced.size())) return Error::wrong_size;
  if (precision == Precision::dpr16) reduce_plain<std::uint16_t>(binary16, f32, reduced.data());
  if (precision == Precision::dpr10) reduce_threes(f32, reduced.data());
  if (precision == Precision::dpr8) reduce_plain<std::uint8_t>(e4m3, f32, reduced.data());
  return Error::none;
}

Error restore(Precision precision, std::span<const std::byte> reduced, std::span<std::byte> f32) {
  if (!sizes_fit(precision, f32.size(), reduced.size())) return Error::wrong_size;
  if (precision == Precision::dpr10 && !spare_bits_are_zero(reduced, f32.size() / 4)) return Error::bad_code;
  if (precision == Precision::dpr16) restore_plain<std::uint16_t>(binary16, reduced, f32.data());
  if (precision == Precision::dpr10) restore_threes(reduced, f32);
  if (precision == Precision::dpr8) restore_plain<std::uint8_t>(e4m3, reduced, f32.data());
  return Error::none;
}

}  // namespace terrace::compression::gist
