// rle: runs of zeros and of values by turns, their lengths in 8 bits each (cDMA's run-length code with the
// values kept together). It beats zvc where zeros cluster: from a mean run of 16 s elements at a share of
// zeros s.
#include <algorithm>
#include <bit>

#include "compression/base/bytes.h"
#include "compression/codecs_own.h"
#include "compression/masks.h"

namespace terrace::compression {
namespace {

constexpr std::size_t pairs_offset = 8;  // a 32-bit count of the pairs, and zeros
constexpr std::size_t longest_run = 255;

// The first position from `from` whose bit is `value`, or `elements`.
std::size_t find(const std::uint64_t* mask, std::size_t elements, std::size_t from, bool value) {
  const std::uint64_t flip = value ? 0 : ~std::uint64_t{0};
  if (from >= elements) return elements;
  std::size_t word = from / 64;
  std::uint64_t bits = (mask[word] ^ flip) & ~std::uint64_t{0} << from % 64;
  while (bits == 0 && ++word < mask_words(elements)) bits = mask[word] ^ flip;
  return bits == 0 ? elements
                   : std::min(elements, word * 64 + static_cast<std::size_t>(std::countr_zero(bits)));
}

// The pairs of a mask, at most `room` bytes of them; returns their number, or nothing where they do not fit.
std::optional<std::size_t> write_pairs(const std::uint64_t* mask, std::size_t elements, std::byte* to,
                                       std::size_t room) {
  std::size_t pairs = 0, at = 0, zeros = find(mask, elements, 0, true);
  while (at < elements) {
    if ((pairs + 1) * 2 > room) return std::nullopt;
    const std::size_t z = std::min(zeros, longest_run);
    at += z;
    zeros -= z;
    const std::size_t values = zeros > 0 ? 0 : std::min(longest_run, find(mask, elements, at, false) - at);
    at += values;
    if (zeros == 0) zeros = find(mask, elements, at, true) - at;
    to[pairs * 2] = static_cast<std::byte>(z);
    to[pairs * 2 + 1] = static_cast<std::byte>(values);
    ++pairs;
  }
  return pairs;
}

BlockCodec::Encoded encode(const Kernels& kernels, ElementType type, std::span<const std::byte> content,
                           Workspace& workspace) {
  const std::size_t width = width_of(type), elements = content.size() / width;
  const std::size_t count =
      kernels.pack[std::countr_zero(width)](content.data(), elements, workspace.mask, workspace.packed);
  if (pairs_offset + count * width >= content.size()) return {};
  const std::size_t room = content.size() - pairs_offset - count * width;
  const auto pairs = write_pairs(workspace.mask, elements, workspace.coded() + pairs_offset, room);
  if (!pairs) return {};
  store(workspace.coded(), std::uint64_t{*pairs});
  const std::size_t end = pairs_offset + *pairs * 2, values = round_up(end, 8);
  std::memset(workspace.coded() + end, 0, values - end);
  std::memcpy(workspace.coded() + values, workspace.packed, count * width);
  return {BlockKind::coded, values + count * width};
}

void set_bits(std::uint64_t* mask, std::size_t from, std::size_t count) {
  while (count > 0) {
    const std::size_t here = std::min(count, 64 - from % 64);
    mask[from / 64] |= (~std::uint64_t{0} >> (64 - here)) << from % 64;
    from += here;
    count -= here;
  }
}

// The mask that the pairs describe; false unless they are the ones that write_pairs() makes of it.
bool read_pairs(std::span<const std::byte> pairs, std::size_t elements, std::uint64_t* mask) {
  std::fill_n(mask, mask_words(elements), std::uint64_t{0});
  std::size_t at = 0;
  bool may_begin_with_values = true;
  for (std::size_t i = 0; i < pairs.size(); i += 2) {
    const auto zeros = std::to_integer<std::size_t>(pairs[i]),
               values = std::to_integer<std::size_t>(pairs[i + 1]);
    const bool is_last = i + 2 == pairs.size();
    if (zeros + values == 0 || zeros + values > elements - at) return false;
    if ((zeros == 0 && !may_begin_with_values) || (values == 0 && zeros != longest_run && !is_last))
      return false;
    set_bits(mask, at + zeros, values);
    at += zeros + values;
    may_begin_with_values = values == longest_run;
  }
  return at == elements;
}

bool decode(const Kernels& kernels, ElementType type, BlockKind, std::span<const std::byte> payload,
            std::span<std::byte> content, Workspace& workspace) {
  const std::size_t width = width_of(type), elements = content.size() / width;
  if (payload.size() < pairs_offset) return false;
  const auto pairs = load<std::uint64_t>(payload.data());
  if (pairs > elements) return false;
  const std::size_t end = pairs_offset + pairs * 2, values = round_up(end, 8);
  if (payload.size() < values || !is_zero(payload.subspan(end, values - end))) return false;
  if (!read_pairs(payload.subspan(pairs_offset, pairs * 2), elements, workspace.mask)) return false;
  if (payload.size() - values != count_bits({workspace.mask, mask_words(elements)}) * width) return false;
  expander(kernels, workspace, width)(workspace.mask, elements, payload.data() + values, content.data());
  return true;
}

}  // namespace

const BlockCodec rle_codec{Codec::rle, encode, decode};

}  // namespace terrace::compression
