#include "compression/masks.h"

#include <algorithm>
#include <bit>

#include "compression/base/bytes.h"

namespace terrace::compression {

namespace {

// std::popcount is a call into libgcc where the compiler may not assume the instruction, which takes 4% of
// decoding.
std::size_t ones(std::uint64_t v) {
  v -= v >> 1 & 0x5555555555555555U;
  v = (v & 0x3333333333333333U) + (v >> 2 & 0x3333333333333333U);
  v = (v + (v >> 4)) & 0x0f0f0f0f0f0f0f0fU;
  return static_cast<std::size_t>(v * 0x0101010101010101U >> 56);
}

}  // namespace

std::size_t count_bits(std::span<const std::uint64_t> mask) {
  std::size_t bits = 0;
  for (const std::uint64_t word : mask) bits += ones(word);
  return bits;
}

bool ends_clean(std::span<const std::uint64_t> mask, std::size_t elements) {
  return elements % 64 == 0 || mask[mask_words(elements) - 1] >> elements % 64 == 0;
}

bool is_dense(std::span<const std::uint64_t> mask, std::size_t width) {
  constexpr std::size_t samples = 16;
  std::size_t zeros = 0;
  for (std::size_t i = 0; i < samples; ++i) {
    zeros += 64 - ones(mask[i * mask.size() / samples]);
    if (zeros >= samples * 64 / (8 * width)) return false;  // after one or two samples, mostly
  }
  return true;
}

// Four counts, so that none waits for the one before: this is done for each block while nothing else is.
std::size_t short_form_bytes(std::span<const std::uint64_t> mask) {
  std::size_t zero_words[4] = {};
  std::size_t i = 0;
  for (; i + 4 <= mask.size(); i += 4)
    for (std::size_t k = 0; k < 4; ++k) zero_words[k] += mask[i + k] == 0 ? 1 : 0;
  for (; i < mask.size(); ++i) zero_words[0] += mask[i] == 0 ? 1 : 0;
  const std::size_t left = mask.size() - zero_words[0] - zero_words[1] - zero_words[2] - zero_words[3];
  return mask_bytes(mask.size()) + left * 8;
}

std::size_t write_short_form(std::span<const std::uint64_t> mask, std::byte* to) {
  std::byte* words = to + mask_bytes(mask.size());
  for (std::size_t first = 0; first < mask.size(); first += 64) {
    const auto group = mask.subspan(first, std::min<std::size_t>(64, mask.size() - first));
    std::uint64_t present = 0;
    for (std::size_t i = 0; i < group.size(); ++i) {
      present |= std::uint64_t{group[i] != 0} << i;
      store(words, group[i]);
      words += group[i] != 0 ? 8 : 0;
    }
    store(to + first / 8, present);
  }
  return static_cast<std::size_t>(words - to);
}

std::optional<std::size_t> read_short_form(std::span<const std::byte> from, std::span<std::uint64_t> mask) {
  const std::size_t summary = mask_bytes(mask.size());
  if (from.size() < summary) return std::nullopt;
  std::size_t at = summary;
  for (std::size_t first = 0; first < mask.size(); first += 64) {
    const auto group = mask.subspan(first, std::min<std::size_t>(64, mask.size() - first));
    const auto present = load<std::uint64_t>(from.data() + first / 8);
    if (!ends_clean({&present, 1}, group.size())) return std::nullopt;
    if (from.size() - at < static_cast<std::size_t>(std::popcount(present)) * 8) return std::nullopt;
    for (std::size_t i = 0; i < group.size(); ++i) {
      const bool here = (present >> i & 1) != 0;
      group[i] = here ? load<std::uint64_t>(from.data() + at) : 0;
      if (here && group[i] == 0) return std::nullopt;
      at += here ? 8 : 0;
    }
  }
  return at;
}

std::optional<std::size_t> read_mask(std::span<const std::byte> from, bool is_short, std::size_t elements,
                                     std::span<std::uint64_t> mask) {
  const auto words = mask.first(mask_words(elements));
  std::optional<std::size_t> read = words.size_bytes();
  if (is_short)
    read = read_short_form(from, words);
  else if (from.size() < words.size_bytes())
    return std::nullopt;
  else
    std::memcpy(words.data(), from.data(), words.size_bytes());
  return read && ends_clean(words, elements) ? read : std::nullopt;
}

}  // namespace terrace::compression
