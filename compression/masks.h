// Masks as they lie in a block: whole, or in the short form without the words that are zero. Used by every
// codec that has a mask; see docs/formats/frame.md, "Masks".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace terrace::compression {

constexpr std::size_t mask_words(std::size_t elements) { return (elements + 63) / 64; }
constexpr std::size_t mask_bytes(std::size_t elements) { return mask_words(elements) * 8; }

std::size_t count_bits(std::span<const std::uint64_t> mask);
// False where a bit behind the last element is set.
bool ends_clean(std::span<const std::uint64_t> mask, std::size_t elements);

// Whether a whole block is dense (frame.md, "Which kind a block becomes", rule 4), by its mask.
bool is_dense(std::span<const std::uint64_t> mask, std::size_t width);

std::size_t short_form_bytes(std::span<const std::uint64_t> mask);
// Returns the bytes written; eight more may be overwritten.
std::size_t write_short_form(std::span<const std::uint64_t> mask, std::byte* to);
// Fills `mask` from the beginning of `from` and returns the bytes read, or nothing where these contradict
// themselves.
std::optional<std::size_t> read_short_form(std::span<const std::byte> from, std::span<std::uint64_t> mask);

// Reads a mask of so many elements in either form, and checks it. Returns the bytes read.
std::optional<std::size_t> read_mask(std::span<const std::byte> from, bool is_short, std::size_t elements,
                                     std::span<std::uint64_t> mask);

}  // namespace terrace::compression
