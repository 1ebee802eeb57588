// csr8: Gist's SSDC (Jain et al., ISCA 2018, section IV) with its narrow-value optimisation: rows of 256
// elements, so that a column index takes 8 bits. zvc is smaller below 89% zeros; this is here for what is
// sparser, and to compare.
#include <bit>

#include "compression/base/bytes.h"
#include "compression/codecs_own.h"
#include "compression/masks.h"

namespace terrace::compression {
namespace {

constexpr std::size_t row_elements = 256;
constexpr std::size_t row_words = row_elements / 64;

constexpr std::size_t rows_of(std::size_t elements) { return (elements + row_elements - 1) / row_elements; }

// Where columns and values begin.
struct Layout {
  std::size_t columns, values, end;
};
Layout layout_of(std::size_t elements, std::size_t count, std::size_t width) {
  const std::size_t columns = round_up(rows_of(elements) * 2, 8), values = round_up(columns + count, 8);
  return {columns, values, values + count * width};
}

// The columns of one row, ascending; returns how many.
std::size_t write_row(const std::uint64_t* mask, std::size_t words, std::byte* to) {
  std::size_t count = 0;
  for (std::size_t w = 0; w < words; ++w) {
    for (std::uint64_t bits = mask[w]; bits != 0; bits &= bits - 1)
      to[count++] = static_cast<std::byte>(w * 64 + static_cast<std::size_t>(std::countr_zero(bits)));
  }
  return count;
}

BlockCodec::Encoded encode(const Kernels& kernels, ElementType type, std::span<const std::byte> content,
                           Workspace& workspace) {
  const std::size_t width = width_of(type), elements = content.size() / width, words = mask_words(elements);
  const std::size_t count =
      kernels.pack[std::countr_zero(width)](content.data(), elements, workspace.mask, workspace.packed);
  const Layout layout = layout_of(elements, count, width);
  if (layout.end >= content.size()) return {};
  std::memset(workspace.coded(), 0, layout.columns);
  std::size_t at = layout.columns;
  for (std::size_t row = 0; row < rows_of(elements); ++row) {
    const std::size_t first = row * row_words;
    const std::size_t here =
        write_row(workspace.mask + first, std::min(row_words, words - first), workspace.coded() + at);
    store(workspace.coded() + row * 2, static_cast<std::uint16_t>(here));
    at += here;
  }
  std::memset(workspace.coded() + at, 0, layout.values - at);
  std::memcpy(workspace.coded() + layout.values, workspace.packed, count * width);
  return {BlockKind::coded, layout.end};
}

// One row's columns into its words of the mask; false unless they ascend and lie within the row.
bool read_row(std::span<const std::byte> columns, std::size_t elements, std::uint64_t* mask) {
  int last = -1;
  for (const std::byte byte : columns) {
    const int column = std::to_integer<int>(byte);
    if (column <= last || static_cast<std::size_t>(column) >= elements) return false;
    mask[column / 64] |= std::uint64_t{1} << column % 64;
    last = column;
  }
  return true;
}

std::size_t count_rows(const std::byte* counts, std::size_t rows) {
  std::size_t sum = 0;
  for (std::size_t row = 0; row < rows; ++row) sum += load<std::uint16_t>(counts + row * 2);
  return sum;
}

bool decode(const Kernels& kernels, ElementType type, BlockKind, std::span<const std::byte> payload,
            std::span<std::byte> content, Workspace& workspace) {
  const std::size_t width = width_of(type), elements = content.size() / width, rows = rows_of(elements);
  if (payload.size() < rows * 2) return false;
  const Layout layout = layout_of(elements, count_rows(payload.data(), rows), width);
  if (payload.size() != layout.end || !is_zero(payload.subspan(rows * 2, layout.columns - rows * 2)))
    return false;
  std::fill_n(workspace.mask, mask_words(elements), std::uint64_t{0});
  std::size_t at = layout.columns;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t count = load<std::uint16_t>(payload.data() + row * 2);
    const std::size_t here = std::min(row_elements, elements - row * row_elements);
    if (count > here || !read_row(payload.subspan(at, count), here, workspace.mask + row * row_words))
      return false;
    at += count;
  }
  if (!is_zero(payload.subspan(at, layout.values - at))) return false;
  expander(kernels, workspace, width)(workspace.mask, elements, payload.data() + layout.values,
                                      content.data());
  return true;
}

}  // namespace

const BlockCodec csr8_codec{Codec::csr8, encode, decode};

}  // namespace terrace::compression
