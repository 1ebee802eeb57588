// Every set of kernels that this machine can run against the plain one, and the plain one against the
// definition: on every short length, every width and density, on values that a test of floats would take for
// zero; in buffers that end right before, or begin right behind, a page that cannot be touched.
#include <catch2/catch.hpp>

#include <xmmintrin.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iostream>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "compression/kernels/kernels.h"
#include "guarded.h"

namespace terrace::compression {
namespace {

using Bytes = std::vector<std::byte>;

constexpr Edge edges[] = {Edge::end, Edge::begin};
constexpr double densities[] = {0, 0.02, 0.2, 0.38, 0.5, 0.8, 0.98, 1};

// All lengths up to where each kernel has gone through its main loop and every tail, and some around larger
// units.
std::vector<std::size_t> lengths() {
  std::vector<std::size_t> all;
  for (std::size_t n = 0; n <= 200; ++n) all.push_back(n);
  for (const std::size_t n : {255, 256, 257, 1000, 1023, 1024, 1025, 2047, 4097, 8192, 16384})
    all.push_back(n);
  return all;
}

// Bits of a value of a type that is not zero: any, -0.0, a signalling and a quiet NaN with payloads, the
// smallest denormal, infinity.
std::uint64_t value_bits(const ElementShape& shape, std::mt19937_64& random) {
  const unsigned bits = 8U * shape.bytes;
  const std::uint64_t sign = std::uint64_t{1} << (bits - 1);
  const std::uint64_t infinity = ((std::uint64_t{1} << shape.exponent_bits) - 1) << shape.mantissa_bits;
  const std::uint64_t specials[] = {sign, infinity | 1, sign | infinity | 3, 1, infinity, sign - 1, sign | 1};
  const std::uint64_t any = random() >> (64 - bits);
  const std::uint64_t chosen = random() % 4 == 0 ? specials[random() % std::size(specials)] : any;
  return chosen == 0 ? 1 : chosen;
}

Bytes elements(ElementType type, std::size_t n, double density, std::mt19937_64& random) {
  const ElementShape& shape = shape_of(type);
  Bytes all(n * shape.bytes, std::byte{0});
  std::bernoulli_distribution present(density);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t bits = present(random) ? value_bits(shape, random) : 0;
    std::memcpy(all.data() + i * shape.bytes, &bits, shape.bytes);
  }
  return all;
}

ElementType unsigned_type(unsigned width_log2) { return static_cast<ElementType>(width_log2); }

void put(const Guarded& to, const Bytes& from) {
  if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
}

bool same(const void* a, const void* b, std::size_t bytes) {
  return bytes == 0 || std::memcmp(a, b, bytes) == 0;
}

struct Packed {
  std::vector<std::uint64_t> mask;
  Bytes values;
  bool operator==(const Packed&) const = default;
};

Packed packed_by_definition(const Bytes& content, std::size_t width) {
  Packed packed{std::vector<std::uint64_t>((content.size() / width + 63) / 64), {}};
  for (std::size_t i = 0; i * width < content.size(); ++i) {
    const auto first = content.begin() + static_cast<std::ptrdiff_t>(i * width);
    const auto last = first + static_cast<std::ptrdiff_t>(width);
    if (std::all_of(first, last, [](std::byte b) { return b == std::byte{0}; })) continue;
    packed.mask[i / 64] |= std::uint64_t{1} << i % 64;
    packed.values.insert(packed.values.end(), first, last);
  }
  return packed;
}

Packed packed_by(const Kernels& kernels, const Bytes& content, unsigned width_log2, Edge edge) {
  const std::size_t n = content.size() >> width_log2;
  const Guarded src(content.size(), edge);
  const Guarded mask((n + 63) / 64 * 8, edge);
  const Guarded values(content.size() + write_slack, edge);
  put(src, content);
  const std::size_t count =
      kernels.pack[width_log2](src.data(), n, reinterpret_cast<std::uint64_t*>(mask.data()), values.data());
  CHECK(mask.surroundings_untouched());
  CHECK(values.surroundings_untouched());
  Packed packed{std::vector<std::uint64_t>((n + 63) / 64),
                Bytes(values.data(), values.data() + (count << width_log2))};
  if (n > 0) std::memcpy(packed.mask.data(), mask.data(), mask.size());
  return packed;
}

// Checks that expanding gives back the content, through the caches and past them.
bool expands(const Kernels& kernels, const Packed& packed, const Bytes& content, unsigned width_log2,
             Edge edge) {
  const Guarded mask(packed.mask.size() * 8, edge);
  const Guarded values(packed.values.size(), edge);
  if (!packed.mask.empty()) std::memcpy(mask.data(), packed.mask.data(), mask.size());
  put(values, packed.values);
  for (const auto expand : {kernels.expand[width_log2], kernels.expand_past[width_log2]}) {
    const Guarded dst(content.size(), edge);
    expand(reinterpret_cast<const std::uint64_t*>(mask.data()), content.size() >> width_log2, values.data(),
           dst.data());
    if (!same(dst.data(), content.data(), content.size()) || !dst.surroundings_untouched()) return false;
  }
  return true;
}

void check_pack_and_expand(const Kernels& kernels, std::size_t n, unsigned width_log2, double density,
                           std::mt19937_64& random) {
  const Bytes content = elements(unsigned_type(width_log2), n, density, random);
  const Packed expected = packed_by_definition(content, std::size_t{1} << width_log2);
  INFO(kernels.name << " width " << (1 << width_log2) << " n " << n << " density " << density);
  for (const Edge edge : edges) {
    CHECK(packed_by(kernels, content, width_log2, edge) == expected);
    CHECK(expands(kernels, expected, content, width_log2, edge));
  }
}

Bytes squeezed_by(const Kernels& kernels, ElementType type, GroupCode code, const Bytes& values, Edge edge) {
  const std::size_t n = values.size() / width_of(type);
  const std::size_t bytes = (n * code.bits(shape_of(type)) + 7) / 8;
  const Guarded in(values.size(), edge);
  const Guarded out(bytes + write_slack, edge);
  put(in, values);
  CHECK(kernels.squeeze(type, code, in.data(), n, out.data()) == bytes);
  CHECK(out.surroundings_untouched());
  return Bytes(out.data(), out.data() + bytes);
}

Bytes unsqueezed_by(const Kernels& kernels, ElementType type, GroupCode code, const Bytes& bits,
                    std::size_t n, Edge edge) {
  const Guarded in(bits.size(), edge);
  const Guarded out(n * width_of(type) + write_slack, edge);
  put(in, bits);
  kernels.unsqueeze(type, code, in.data(), n, out.data());
  CHECK(out.surroundings_untouched());
  return Bytes(out.data(), out.data() + n * width_of(type));
}

// Values of which a group has something in common: 0 any, 1 no sign and few exponents, 2 the same with a
// short mantissa, 3 all alike, 4 powers of two.
Bytes group_values(ElementType type, std::size_t n, int style, std::mt19937_64& random) {
  const ElementShape& shape = shape_of(type);
  const std::uint64_t mantissa = (std::uint64_t{1} << shape.mantissa_bits) - 1;
  const std::uint64_t exponent = std::uint64_t{1} << shape.exponent_bits >> 1;
  const std::uint64_t first = value_bits(shape, random);
  Bytes all(n * shape.bytes);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t near =
        (exponent > 0 ? (exponent - random() % exponent % 3) << shape.mantissa_bits : 0);
    const std::uint64_t few = near | (random() & mantissa);
    const std::uint64_t choices[] = {value_bits(shape, random), few, few & ~(mantissa >> 1), first, near};
    const std::uint64_t bits = choices[style] == 0 ? 1 : choices[style];
    std::memcpy(all.data() + i * shape.bytes, &bits, shape.bytes);
  }
  return all;
}

GroupCode group_code_by(const Kernels& kernels, ElementType type, const Bytes& values, Edge edge) {
  const Guarded in(values.size(), edge);
  put(in, values);
  return kernels.group_code(type, in.data(), values.size() / width_of(type));
}

void check_group(const Kernels& kernels, ElementType type, std::size_t n, int style,
                 std::mt19937_64& random) {
  const Bytes values = group_values(type, n, style, random);
  const GroupCode code = group_code_by(scalar_kernels(), type, values, Edge::end);
  const Bytes bits = squeezed_by(scalar_kernels(), type, code, values, Edge::end);
  INFO(kernels.name << " " << name_of(type) << " n " << n << " style " << style);
  for (const Edge edge : edges) {
    CHECK(group_code_by(kernels, type, values, edge) == code);
    CHECK(squeezed_by(kernels, type, code, values, edge) == bits);
    CHECK(unsqueezed_by(kernels, type, code, bits, n, edge) == values);
  }
}

// Any code that a reader lets through.
GroupCode any_code(const ElementShape& shape, std::mt19937_64& random) {
  return {.base = static_cast<std::uint16_t>(random() % (std::uint64_t{1} << shape.exponent_bits)),
          .width = static_cast<std::uint8_t>(random() % (shape.exponent_bits + 1U)),
          .sign = static_cast<std::uint8_t>(random() % 2),
          .trail = static_cast<std::uint8_t>(random() % (shape.mantissa_bits + 1U))};
}

constexpr unsigned daz_and_ftz = 0x8040;

// Denormals are zero to the unit that computes with floats, as deep-learning frameworks set it.
class DenormalsAreZero {
 public:
  DenormalsAreZero() { _mm_setcsr(saved_ | daz_and_ftz); }
  DenormalsAreZero(const DenormalsAreZero&) = delete;
  DenormalsAreZero& operator=(const DenormalsAreZero&) = delete;
  ~DenormalsAreZero() { _mm_setcsr(saved_); }

 private:
  unsigned saved_ = _mm_getcsr();
};

}  // namespace

TEST_CASE("The best kernels come first and the plain ones last") {
  REQUIRE_FALSE(all_kernels().empty());
  CHECK(&kernels() == all_kernels().front());
  CHECK(all_kernels().back() == &scalar_kernels());
  if (avx2_kernels() == nullptr) std::cout << "SKIP: the avx2 kernels: this machine lacks AVX2 or BMI2\n";
  if (avx512_v4_kernels() == nullptr)
    std::cout << "SKIP: the avx512_v4 kernels: this machine lacks one of their parts\n";
  if (avx512_kernels() == nullptr)
    std::cout << "SKIP: the avx512 kernels: this machine lacks one of their parts\n";
}

TEST_CASE("Elements are packed and expanded as the definition says") {
  std::mt19937_64 random(1);
  for (const Kernels* kernels : all_kernels())
    for (unsigned width_log2 = 0; width_log2 < 4; ++width_log2)
      for (const double density : densities)
        for (const std::size_t n : lengths()) check_pack_and_expand(*kernels, n, width_log2, density, random);
}

TEST_CASE("A whole block of bytes is packed and expanded") {
  std::mt19937_64 random(2);
  for (const Kernels* kernels : all_kernels())
    for (const double density : densities) check_pack_and_expand(*kernels, 65536, 0, density, random);
}

TEST_CASE("Denormals and negative zero are values though the float unit takes them for zero") {
  const DenormalsAreZero set;
  constexpr float smallest = std::numeric_limits<float>::denorm_min();
  const float numbers[] = {smallest, 0.0F, -0.0F, -smallest, 0.0F, std::bit_cast<float>(0x7fa00001U), 1.0F};
  const auto* begin = reinterpret_cast<const std::byte*>(numbers);
  const Bytes content(begin, begin + sizeof numbers);
  for (const Kernels* kernels : all_kernels()) {
    const Packed packed = packed_by(*kernels, content, 2, Edge::end);
    INFO(kernels->name);
    CHECK(packed.mask == std::vector<std::uint64_t>{0b1101101});
    CHECK(expands(*kernels, packed, content, 2, Edge::end));
  }
}

TEST_CASE("Groups of values are squeezed to the same bits by all and come back") {
  std::mt19937_64 random(3);
  for (const Kernels* kernels : all_kernels())
    for (int type = 0; type < element_type_count; ++type)
      for (int style = 0; style < 5; ++style)
        for (const std::size_t n : lengths())
          if (n > 0 && n <= 2047) check_group(*kernels, static_cast<ElementType>(type), n, style, random);
}

TEST_CASE("Any bits under any code give the same values by all") {
  std::mt19937_64 random(4);
  for (int round = 0; round < 20000; ++round) {
    const auto type = static_cast<ElementType>(random() % element_type_count);
    const GroupCode code = any_code(shape_of(type), random);
    const std::size_t n = 1 + random() % 200;
    Bytes bits((n * code.bits(shape_of(type)) + 7) / 8);
    for (std::byte& b : bits) b = static_cast<std::byte>(random());
    const Bytes expected = unsqueezed_by(scalar_kernels(), type, code, bits, n, Edge::end);
    for (const Kernels* kernels : all_kernels()) {
      INFO(kernels->name << " " << name_of(type) << " n " << n);
      CHECK(unsqueezed_by(*kernels, type, code, bits, n, edges[round % 2]) == expected);
    }
  }
}

TEST_CASE("A streamed copy is a copy, wherever it begins and ends") {
  std::mt19937_64 random(5);
  for (const Kernels* kernels : all_kernels())
    for (std::size_t bytes = 0; bytes < 400; ++bytes) {
      const Bytes content = elements(ElementType::u8, bytes, 1, random);
      for (const Edge edge : edges) {
        const Guarded src(bytes, edge), dst(bytes, edge);
        put(src, content);
        kernels->stream(dst.data(), src.data(), bytes);
        INFO(kernels->name << " bytes " << bytes);
        CHECK(same(dst.data(), content.data(), bytes));
        CHECK(dst.surroundings_untouched());
      }
    }
}

TEST_CASE("What is stored is copied and summed up, wherever it begins and ends") {
  std::mt19937_64 random(7);
  const Bytes content = elements(ElementType::u8, 65536, 0.7, random);
  for (const Kernels* kernels : all_kernels())
    for (std::size_t bytes = 0; bytes <= content.size(); bytes += bytes < 1300   ? 1
                                                                  : bytes < 5000 ? 61
                                                                                 : 4091) {
      const Edge edge = edges[bytes / 2 % 2];
      const Guarded src(bytes, edge), dst(bytes, edges[bytes % 2]);
      put(src, Bytes(content.begin(), content.begin() + static_cast<std::ptrdiff_t>(bytes)));
      INFO(kernels->name << " bytes " << bytes);
      const std::uint64_t sum = kernels->store(dst.data(), src.data(), bytes, bytes % 3 == 0);
      kernels->fence();
      CHECK(sum == scalar_kernels().checksum(content.data(), bytes));
      CHECK(same(dst.data(), content.data(), bytes));
      CHECK(dst.surroundings_untouched());
    }
}

// Packs `content` in parts of `step` bytes, which leaves nothing of `storing` out of place.
void pack_in_parts(const Kernels& kernels, const Bytes& content, std::size_t step, unsigned width_log2,
                   bool in_order, Storing& storing) {
  Ahead unreadable{.block = content.data(),
                   .block_bytes = content.size() + 65536,
                   .next = reinterpret_cast<const std::byte*>(std::uintptr_t{64}),
                   .next_bytes = 65536,
                   .in_order = in_order};
  Packed packed{std::vector<std::uint64_t>((content.size() >> width_log2) / 64),
                Bytes(content.size() + write_slack)};
  std::size_t count = 0;
  for (std::size_t at = 0; at < content.size(); at += step)
    count += kernels.pack_storing[width_log2](
        content.data() + at, step >> width_log2, packed.mask.data() + (at >> width_log2) / 64,
        packed.values.data() + (count << width_log2), unreadable, storing);
  packed.values.resize(count << width_log2);
  CHECK(packed == packed_by_definition(content, std::size_t{1} << width_log2));
}

TEST_CASE("What is stored while something is packed is the same as at once, and so is what is packed") {
  std::mt19937_64 random(8);
  const Bytes content = elements(ElementType::u8, 65536, 0.7, random);
  const Bytes other = elements(ElementType::u64, 8192, 0.4, random);
  for (const Kernels* kernels : all_kernels())
    for (const std::size_t bytes :
         {0, 1, 64, 240, 241, 256, 304, 1024, 1088, 1089, 2112, 2113, 5000, 27136, 65536})
      for (const std::size_t step : {512, 4096, 65536})
        for (const bool in_order : {false, true}) {
          const unsigned width_log2 = static_cast<unsigned>(bytes / 8 + step / 4096) % 4;
          const Guarded src(bytes, Edge::end), dst(bytes, edges[(bytes + step) % 2]);
          put(src, Bytes(content.begin(), content.begin() + static_cast<std::ptrdiff_t>(bytes)));
          Storing storing;
          storing.dst = dst.data();
          storing.src = src.data();
          storing.bytes = bytes;
          INFO(kernels->name << " bytes " << bytes << " step " << step << " in order " << in_order);
          pack_in_parts(*kernels, other, step, width_log2, in_order, storing);
          CHECK(kernels->store_rest(storing) == scalar_kernels().checksum(content.data(), bytes));
          kernels->fence();
          CHECK(same(dst.data(), content.data(), bytes));
          CHECK(dst.surroundings_untouched());
        }
}

TEST_CASE("Content is fetched in order on Zen 5 and later, by what the kernel says of the processor") {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string line, vendor;
  int family = 0;
  while (std::getline(cpuinfo, line) && !line.empty()) {
    if (line.starts_with("vendor_id")) vendor = line.substr(line.find(": ") + 2);
    if (line.starts_with("cpu family")) family = std::stoi(line.substr(line.find(": ") + 2));
  }
  REQUIRE(!vendor.empty());
  CHECK(fetches_in_order() == (vendor == "AuthenticAMD" && family >= 26));
}

TEST_CASE("All kernels have the same checksum") {
  std::mt19937_64 random(6);
  const Bytes content = elements(ElementType::u8, 65536, 1, random);
  // A known value, for XXH3 is part of the format: that of no bytes.
  CHECK(scalar_kernels().checksum(content.data(), 0) == 0x2d06800538d394c2);
  for (const Kernels* kernels : all_kernels())
    for (std::size_t bytes = 0; bytes <= content.size(); bytes += bytes < 2100 ? 1 : 4093) {
      const Guarded src(bytes, Edge::end);
      put(src, Bytes(content.begin(), content.begin() + static_cast<std::ptrdiff_t>(bytes)));
      INFO(kernels->name << " bytes " << bytes);
      CHECK(kernels->checksum(src.data(), bytes) == scalar_kernels().checksum(src.data(), bytes));
    }
}

}  // namespace terrace::compression
