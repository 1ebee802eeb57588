#include "compression/advisor/sample.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "compression/kernels/kernels.h"

namespace terrace::compression {
namespace {

constexpr int width_bins = 12;  // an f64 has 11 exponent bits
constexpr double group_elements = 1024;
constexpr std::size_t short_piece = 16;  // elements; a cache line of f32
constexpr std::size_t few_pieces = 64;   // if there would be fewer of whole words, pieces are short
constexpr std::uint64_t prefetched = 6;  // pieces

struct Tally {
  std::size_t piece = sample_word;  // elements of each
  std::uint64_t pieces = 0, values = 0, zero = 0, full = 0, run_starts = 0, with_sign = 0;
  std::uint64_t distant[width_bins] =
      {};                       // values by the bits of their exponent's distance to the piece's largest
  std::uint64_t mantissas = 0;  // all of them, or-ed
  double squared_steps = 0;     // between the sparsities of neighbouring strata
  double last_sparsity = 0;
};

// splitmix64 (Steele, Lea, Flood, OOPSLA 2014): neighbouring inputs give unrelated outputs.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Stratum i of k over so many pieces, and the piece in it that is read.
struct Strata {
  std::uint64_t pieces, k, seed;

  std::uint64_t begin(std::uint64_t i) const { return i * (pieces / k) + std::min(i, pieces % k); }
  std::uint64_t piece(std::uint64_t i) const {
    return begin(i) + mixed(seed ^ mixed(i)) % (begin(i + 1) - begin(i));
  }
};

// Of a type of a width known when this is compiled: the loops are all of a sample's time that is not waiting
// for memory.
template <typename Element>
void add_values_of(Tally& tally, const ElementShape& shape, const std::byte* values, std::size_t n) {
  const unsigned mantissa = shape.mantissa_bits;
  const auto exponents = static_cast<Element>((std::uint64_t{1} << shape.exponent_bits) - 1);
  Element exponent[sample_word];
  Element largest = 0, all = 0;
  for (std::size_t i = 0; i < n; ++i) {
    Element value = 0;
    std::memcpy(&value, values + i * sizeof value, sizeof value);
    all = static_cast<Element>(all | value);
    exponent[i] = static_cast<Element>((value >> mantissa) & exponents);
    largest = std::max(largest, exponent[i]);
  }
  for (std::size_t i = 0; i < n; ++i)
    ++tally.distant[std::bit_width(static_cast<Element>(largest - exponent[i]))];
  tally.with_sign += std::uint64_t{all} >> (8 * sizeof all - 1);
  tally.mantissas |= all & ((std::uint64_t{1} << mantissa) - 1);
}

void add_values(Tally& tally, const ElementShape& shape, const std::byte* values, std::size_t n) {
  switch (shape.bytes) {
    case 1:
      return add_values_of<std::uint8_t>(tally, shape, values, n);
    case 2:
      return add_values_of<std::uint16_t>(tally, shape, values, n);
    case 4:
      return add_values_of<std::uint32_t>(tally, shape, values, n);
    default:
      return add_values_of<std::uint64_t>(tally, shape, values, n);
  }
}

void add_piece(Tally& tally, ElementType type, const std::byte* piece) {
  std::uint64_t mask = 0;
  std::byte values[sample_word * sizeof(std::uint64_t) + write_slack];
  const int log2_width = std::countr_zero(width_of(type));
  const std::size_t n = kernels().pack[log2_width](piece, tally.piece, &mask, values);
  const double sparsity = 1 - static_cast<double>(n) / static_cast<double>(tally.piece);
  if (tally.pieces > 0) tally.squared_steps += std::pow(sparsity - tally.last_sparsity, 2);
  tally.last_sparsity = sparsity;
  ++tally.pieces;
  tally.values += n;
  tally.zero += n == 0;
  tally.full += n == tally.piece;
  tally.run_starts += std::popcount((mask >> 1) & ~mask);
  add_values(tally, shape_of(type), values, n);
}

double elements_of(const Tally& tally) { return static_cast<double>(tally.pieces * tally.piece); }

// One piece says nothing of its neighbours: then as for independent runs of 8 elements. And where all pieces
// look the same, the next one may still not: an error of about one element more than were seen.
double standard_error(const Tally& tally, double sparsity) {
  const double k = static_cast<double>(tally.pieces);
  const double variance = k > 1 ? tally.squared_steps / (2 * k * (k - 1)) : sparsity * (1 - sparsity) / 8;
  return std::max(std::sqrt(variance), 1 / elements_of(tally));
}

double any_of(double share, double n) { return 1 - std::pow(1 - share, n); }

// The width of a group's code is that of its most distant value, and a group has more values than a word. So:
// for each width the chance that some value of a group needs it, if values fall as those that were seen.
double expected_width(const Tally& tally, double group_values) {
  double width = 0;
  double beyond = 0;
  for (int bits = width_bins - 1; bits > 0; --bits) {
    beyond += static_cast<double>(tally.distant[bits]);
    width += any_of(std::min(1.0, beyond / static_cast<double>(tally.values)), group_values);
  }
  return width;
}

double value_bits(const Tally& tally, const ElementShape& shape, double density) {
  if (tally.values == 0) return 8.0 * shape.bytes;
  const double pieces_with_sign = static_cast<double>(tally.with_sign) / static_cast<double>(tally.pieces);
  const double sign = any_of(pieces_with_sign, group_elements / static_cast<double>(tally.piece));
  const int trail = std::min<int>(std::countr_zero(tally.mantissas), shape.mantissa_bits);
  return sign + expected_width(tally, group_elements * density) + shape.mantissa_bits - trail;
}

// The share of words of 64, from that of pieces, as if neighbouring pieces were independent.
double of_words(std::uint64_t pieces, const Tally& tally) {
  const double share = static_cast<double>(pieces) / static_cast<double>(tally.pieces);
  return std::pow(share, sample_word / tally.piece);
}

Sample summary(const Tally& tally, ElementType type) {
  Sample sample;
  sample.elements = tally.pieces * tally.piece;
  sample.sparsity = 1 - static_cast<double>(tally.values) / elements_of(tally);
  sample.standard_error = standard_error(tally, sample.sparsity);
  sample.zero_words = of_words(tally.zero, tally);
  sample.full_words = of_words(tally.full, tally);
  sample.runs = static_cast<double>(tally.run_starts) / static_cast<double>(tally.pieces * (tally.piece - 1));
  sample.value_bits = value_bits(tally, shape_of(type), sample.density());
  return sample;
}

// The pieces lie far apart, each a miss in every cache and in the TLB: several on their way at once.
void prefetch(const std::byte* piece, std::size_t bytes) {
  for (std::size_t line = 0; line < bytes; line += 64) __builtin_prefetch(piece + line);
}

}  // namespace

Sample sample_content(ElementType type, std::span<const std::byte> content, std::uint64_t seed) {
  const std::uint64_t elements = content.size() / width_of(type);
  Tally tally;
  tally.piece = elements / sample_share >= few_pieces * sample_word ? sample_word : short_piece;
  const std::size_t piece_bytes = tally.piece * width_of(type);
  const std::uint64_t pieces = elements / tally.piece;
  const std::uint64_t least = std::min(pieces / sample_share_small, sample_least);
  const std::uint64_t k = std::clamp<std::uint64_t>(pieces / sample_share, least, sample_most);
  if (pieces < sample_share) return {};
  const Strata strata{pieces, k, seed};
  const auto piece = [&](std::uint64_t i) { return content.data() + strata.piece(i) * piece_bytes; };
  for (std::uint64_t i = 0; i < std::min(k, prefetched); ++i) prefetch(piece(i), piece_bytes);
  for (std::uint64_t i = 0; i < k; ++i) {
    if (i + prefetched < k) prefetch(piece(i + prefetched), piece_bytes);
    add_piece(tally, type, piece(i));
  }
  return summary(tally, type);
}

Sample sample_from_counts(ElementType type, std::uint64_t elements, std::uint64_t non_zero) {
  if (elements == 0) return {};
  constexpr double typical_zero_run = 7;
  Sample sample;
  sample.elements = elements;
  sample.sparsity = 1 - static_cast<double>(std::min(non_zero, elements)) / static_cast<double>(elements);
  sample.standard_error = 0;
  sample.zero_words = sample.sparsity == 1 ? 1 : 0;
  sample.full_words = sample.sparsity == 0 ? 1 : 0;
  sample.runs = std::min(sample.sparsity / typical_zero_run, sample.density());
  sample.value_bits = 8.0 * static_cast<double>(width_of(type));
  return sample;
}

Sample combine(const Sample& a, const Sample& b) {
  if (!a.known() || !b.known()) return a.known() ? a : b;
  constexpr double least_variance = 1e-12;  // counts have no error
  const double of_a = 1 / std::max(a.standard_error * a.standard_error, least_variance);
  const double of_b = 1 / std::max(b.standard_error * b.standard_error, least_variance);
  const double share = of_a / (of_a + of_b);
  const auto mean = [share](double x, double y) { return share * x + (1 - share) * y; };
  return {a.elements + b.elements,          mean(a.sparsity, b.sparsity),     std::sqrt(1 / (of_a + of_b)),
          mean(a.zero_words, b.zero_words), mean(a.full_words, b.full_words), mean(a.runs, b.runs),
          mean(a.value_bits, b.value_bits)};
}

}  // namespace terrace::compression
