#include "support.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <new>

#include "compression/base/bytes.h"
#include "compression/external_codecs.h"
#include "walled.h"

namespace terrace::compression::test {
namespace {

// Puts `bits` as element i.
void put(ElementType type, std::byte* to, std::size_t i, std::uint64_t bits) {
  std::memcpy(to + i * width_of(type), &bits, width_of(type));
}

std::uint64_t sign_of(ElementType type) { return std::uint64_t{1} << (8 * width_of(type) - 1); }

// The bits of infinity; for integers something as large.
std::uint64_t infinity_of(ElementType type) {
  const ElementShape& shape = shape_of(type);
  return ((std::uint64_t{1} << shape.exponent_bits) - 1) << shape.mantissa_bits;
}

std::uint64_t not_zero(std::uint64_t bits, ElementType type) {
  const std::uint64_t all = sign_of(type) * 2 - 1;
  return (bits & all) != 0 ? bits : 1;
}

// What a ReLU leaves of a normal distribution, with the type's own exponent and mantissa; sometimes any bits.
std::uint64_t value(ElementType type, std::mt19937_64& random) {
  const ElementShape& shape = shape_of(type);
  if (shape.exponent_bits == 0 || random() % 64 == 0) return not_zero(random(), type);
  const std::uint64_t below_one = static_cast<std::uint64_t>(std::countr_zero(random() | 0x100));
  const std::uint64_t bias = (std::uint64_t{1} << (shape.exponent_bits - 1)) - 1;
  const std::uint64_t exponent = bias > below_one ? bias - below_one : 0;
  return not_zero(
      exponent << shape.mantissa_bits | (random() & ((std::uint64_t{1} << shape.mantissa_bits) - 1)), type);
}

void all_zero(ElementType type, std::size_t n, std::byte* to, std::mt19937_64&) {
  for (std::size_t i = 0; i < n; ++i) put(type, to, i, 0);
}

void any_bits(ElementType type, std::size_t n, std::byte* to, std::mt19937_64& random) {
  for (std::size_t i = 0; i < n; ++i) put(type, to, i, not_zero(random(), type));
}

void alternating(ElementType type, std::size_t n, std::byte* to, std::mt19937_64& random) {
  for (std::size_t i = 0; i < n; ++i) put(type, to, i, i % 2 == 0 ? 0 : value(type, random));
}

void one_value_again_and_again(ElementType type, std::size_t n, std::byte* to, std::mt19937_64& random) {
  const std::uint64_t bits = value(type, random);
  for (std::size_t i = 0; i < n; ++i) put(type, to, i, bits);
}

void only_the_first(ElementType type, std::size_t n, std::byte* to, std::mt19937_64& random) {
  for (std::size_t i = 0; i < n; ++i) put(type, to, i, i == 0 ? value(type, random) : 0);
}

void only_the_last(ElementType type, std::size_t n, std::byte* to, std::mt19937_64& random) {
  for (std::size_t i = 0; i < n; ++i) put(type, to, i, i + 1 == n ? value(type, random) : 0);
}

void negative_zeros(ElementType type, std::size_t n, std::byte* to, std::mt19937_64& random) {
  for (std::size_t i = 0; i < n; ++i) put(type, to, i, random() % 3 == 0 ? sign_of(type) : 0);
}

// Quiet and signalling, of both signs, first, last and any payload; both infinities.
void nans_and_infinities(ElementType type, std::size_t n, std::byte* to, std::mt19937_64& random) {
  const std::uint64_t infinity = infinity_of(type),
                      quiet = std::uint64_t{1} << (shape_of(type).mantissa_bits - 1);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t payload = random() % (quiet * 2);
    const std::uint64_t kinds[] = {
        infinity, infinity | 1, infinity | quiet, infinity | (quiet - 1), infinity | payload, 0};
    put(type, to, i, kinds[random() % 6] | (random() % 2 == 0 ? sign_of(type) : 0));
  }
}

void denormals(ElementType type, std::size_t n, std::byte* to, std::mt19937_64& random) {
  const std::uint64_t below = std::uint64_t{1} << shape_of(type).mantissa_bits;
  for (std::size_t i = 0; i < n; ++i)
    put(type, to, i, random() % 2 == 0 ? 0 : random() % below | (random() % 8 == 0 ? sign_of(type) : 0));
}

void few_exponents_and_round_mantissas(ElementType type, std::size_t n, std::byte* to,
                                       std::mt19937_64& random) {
  const unsigned low = shape_of(type).mantissa_bits / 2;
  for (std::size_t i = 0; i < n; ++i)
    put(type, to, i, random() % 3 == 0 ? value(type, random) >> low << low : 0);
}

template <unsigned per_mille>
void independent(ElementType type, std::size_t n, std::byte* to, std::mt19937_64& random) {
  for (std::size_t i = 0; i < n; ++i) put(type, to, i, random() % 1000 < per_mille ? value(type, random) : 0);
}

// Runs of zeros and values by turns, of mean lengths whose share is the density.
template <unsigned zero_run, unsigned value_run>
void clustered(ElementType type, std::size_t n, std::byte* to, std::mt19937_64& random) {
  bool zero = random() % 2 == 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (random() % (zero ? zero_run : value_run) == 0) zero = !zero;
    put(type, to, i, zero ? 0 : value(type, random));
  }
}

// Runs of exactly what rle's 8 bits hold, and one more and less.
void runs_about_255(ElementType type, std::size_t n, std::byte* to, std::mt19937_64& random) {
  constexpr std::size_t lengths[] = {254, 255, 256, 509, 510, 511, 1, 765};
  bool zero = random() % 2 == 0;
  for (std::size_t i = 0, left = 0; i < n; ++i, --left) {
    if (left == 0) {
      left = lengths[random() % 8];
      zero = !zero;
    }
    put(type, to, i, zero ? 0 : value(type, random));
  }
}

// Blocks of every kind, one after the other.
void block_by_block(ElementType type, std::size_t n, std::byte* to, std::mt19937_64& random) {
  constexpr decltype(Pattern::fill) kinds[] = {all_zero,         any_bits,       one_value_again_and_again,
                                               independent<300>, independent<2>, all_zero};
  const std::size_t in_block = block_bytes / width_of(type);
  for (std::size_t i = 0, at = 0; at < n; ++i, at += in_block)
    kinds[i % 6](type, std::min(in_block, n - at), to + at * width_of(type), random);
}

const Pattern all_patterns[] = {
    {"all zero", all_zero},
    {"any bits but zero", any_bits},
    {"alternating", alternating},
    {"one value again and again", one_value_again_and_again},
    {"only the first", only_the_first},
    {"only the last", only_the_last},
    {"negative zeros", negative_zeros},
    {"NaNs and infinities", nans_and_infinities},
    {"denormals", denormals},
    {"few exponents and round mantissas", few_exponents_and_round_mantissas},
    {"independent, 1 of 1000", independent<1>},
    {"independent, 1 of 20", independent<50>},
    {"independent, 38%", independent<380>},
    {"independent, 90%", independent<900>},
    {"independent, 98%", independent<980>},
    {"independent, all", independent<1000>},
    {"clustered, 38%", clustered<8, 5>},
    {"clustered, 20%", clustered<16, 4>},
    {"clustered, 5%", clustered<400, 20>},
    {"runs about 255", runs_about_255},
    {"block by block", block_by_block},
};

struct Fields {
  std::uint64_t content_bytes, payload_offset;
};

// Of any bytes. The number of entries that lie in the frame is bounded by its size.
Fields fields_of(std::span<const std::byte> frame) {
  return {load<std::uint64_t>(frame.data() + 8), load<std::uint64_t>(frame.data() + 24)};
}

void repair_entry(std::span<std::byte> frame, std::uint64_t i, std::uint64_t payload_offset) {
  Entry entry = read_entry(frame, i);
  if (payload_offset > frame.size()) return;
  const std::uint64_t room = frame.size() - payload_offset;
  if (entry.offset() > room || entry.extent() > room - entry.offset()) return;
  const auto extent = frame.subspan(payload_offset + entry.offset(), entry.extent());
  entry.checksum = entry.kind == BlockKind::zero ? 0 : kernels().checksum(extent.data(), extent.size());
  write_entry(frame.data(), i, entry);
}

}  // namespace

Workspace& workspace() {
  static_assert(alignof(Workspace) <= 4096);  // its size is a multiple of that, and it ends at a page's end
  thread_local const Walled memory(sizeof(Workspace));
  thread_local Workspace* const one = new (memory.data()) Workspace;
  return *one;
}

std::span<const Pattern> patterns() { return all_patterns; }

Bytes content_of(const Pattern& pattern, ElementType type, std::size_t elements) {
  std::mt19937_64 random(elements * 31 + static_cast<std::size_t>(type));
  Bytes content(elements * width_of(type));
  pattern.fill(type, elements, content.data(), random);
  return content;
}

Bytes random_content(ElementType type, std::size_t elements, unsigned per_mille, std::mt19937_64& random) {
  Bytes content(elements * width_of(type));
  for (std::size_t i = 0; i < elements; ++i)
    put(type, content.data(), i, random() % 1000 < per_mille ? value(type, random) : 0);
  return content;
}

Framed compressed(std::span<const std::byte> content, const FrameOptions& options, const Kernels& with) {
  Bytes frame(frame_bound(content.size(), options.alignment_log2), std::byte{0xa5});
  const Compressed result = compress(content, frame, options, workspace(), all_codecs, with);
  frame.resize(result.bytes);
  return {result.error, std::move(frame)};
}

void repair_blocks(std::span<std::byte> frame) {
  if (frame.size() < header_bytes) return;
  const Fields fields = fields_of(frame);
  const std::uint64_t blocks = fields.content_bytes / block_bytes + (fields.content_bytes % block_bytes != 0);
  const std::uint64_t entries = std::min<std::uint64_t>(blocks, (frame.size() - header_bytes) / entry_bytes);
  for (std::uint64_t i = 0; i < entries; ++i) repair_entry(frame, i, fields.payload_offset);
}

void repair_table(std::span<std::byte> frame) {
  if (frame.size() < header_bytes) return;
  const std::uint64_t end = fields_of(frame).payload_offset;
  if (end < header_bytes || end > frame.size()) return;
  store(frame.data() + 32, kernels().checksum(frame.data() + header_bytes, end - header_bytes));
}

void repair_header(std::span<std::byte> frame) {
  if (frame.size() < header_bytes) return;
  store(frame.data() + 56, kernels().checksum(frame.data(), 56));
}

}  // namespace terrace::compression::test
