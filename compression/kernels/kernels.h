// What the codecs are made of: the inner loops, once in plain C++ and once for each vector unit. All write
// the same bytes. The best that the machine has is chosen at the first call of kernels(); tests ask for each
// by name.
//
// Arrays of four are indexed by log2 of the element's width (1, 2, 4, 8 bytes). Masks are 64-bit words, bit i
// of word w for element 64 w + i, set where the element is not zero; bits behind the last element are zero.
// None of these functions allocates, locks or keeps state. Pointers need no alignment but the mask's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "compression/base/element.h"

namespace terrace::compression {

// How far past the end of what they write `pack` and `squeeze` may store (never `expand`).
inline constexpr std::size_t write_slack = 64;

// What all the values of a group of 1024 elements have in common (zvc_exp).
struct GroupCode {
  std::uint16_t base = 0;  // the smallest exponent
  std::uint8_t width = 0;  // bits of the largest exponent minus the smallest
  std::uint8_t sign = 0;   // 1: some value has its sign bit set, so one is stored for each
  std::uint8_t trail = 0;  // low bits that are zero in every mantissa and not stored

  unsigned bits(const ElementShape& shape) const { return sign + width + shape.mantissa_bits - trail; }
  bool operator==(const GroupCode&) const = default;
};

// What is read while a block is packed, and after it: kernels may fetch it into the cache in time. Not
// accessed; empty where nothing is known.
struct Ahead {
  const std::byte* block = nullptr;  // the one that is packed
  std::size_t block_bytes = 0;
  const std::byte* next = nullptr;  // the one that is packed after it
  std::size_t next_bytes = 0;
  // How far fetching is, see pack.h: in rows from the block's beginning, and in rows packed until one
  // is left out.
  std::size_t rows = 64;
  std::size_t until_pause = 16;
  bool in_order = false;   // pages one after the other, not side by side
  bool in_groups = false;  // the block is packed and coded group by group (zvc_exp)
};

// Whether this machine likes `in_order`, and where `rows` begins then.
bool fetches_in_order();
inline constexpr std::size_t rows_in_order = 14;

// A store() in steps, between which other work is done: what it was asked for, and how far it is.
struct Storing {
  std::byte* dst = nullptr;
  const std::byte* src = nullptr;
  std::size_t bytes = 0;
  std::size_t stripes = 0;  // stored and summed up so far, of 64 bytes
  std::size_t due = 0;      // what pack_storing() is behind with, in stripes for each row of a block
  alignas(64) std::uint64_t sums[8] = {};
};

struct Kernels {
  const char* name;  // "scalar", "avx2", "avx512_v4", "avx512"

  // Mask and packed non-zero elements of src[0..n). Returns how many there are. Reads nothing beyond src[n),
  // but may fetch it into the cache; `packed` has room for n elements and write_slack bytes.
  std::size_t (*pack[4])(const std::byte* src, std::size_t n, std::uint64_t* mask, std::byte* packed);

  // The same for a block or a part of it, and meanwhile what memory can do besides: fetches what `ahead`
  // says, and stores of `storing` as large a share as src is of a block, but never all. (Or none, where
  // nothing is gained by that.)
  std::size_t (*pack_storing[4])(const std::byte* src, std::size_t n, std::uint64_t* mask, std::byte* packed,
                                 Ahead& ahead, Storing& storing);

  // The inverse: writes dst[0..n) and nothing else; reads as many values as the mask has bits and nothing
  // beyond.
  void (*expand[4])(const std::uint64_t* mask, std::size_t n, const std::byte* values, std::byte* dst);

  // The same, past the caches where the machine can and dst is aligned to 64 bytes; fence() belongs behind
  // it.
  void (*expand_past[4])(const std::uint64_t* mask, std::size_t n, const std::byte* values, std::byte* dst);

  // The tightest code of n > 0 values of a type.
  GroupCode (*group_code)(ElementType type, const std::byte* values, std::size_t n);

  // n values as n * code.bits() bits, the first in the lowest bits of the first byte, zero bits behind the
  // last. The bits of one value, from the low end: mantissa without `trail`, exponent minus base in `width`
  // bits, sign if stored. `out` has room for the bytes and write_slack. Returns the bytes.
  std::size_t (*squeeze)(ElementType type, GroupCode code, const std::byte* values, std::size_t n,
                         std::byte* out);

  // The inverse: reads ceil(n * bits / 8) bytes and nothing beyond, writes n values and at most write_slack
  // beyond. Exponents are added modulo 2^exponent_bits, so any bits give some values.
  void (*unsqueeze)(ElementType type, GroupCode code, const std::byte* in, std::size_t n, std::byte* values);

  // Copies to memory that nobody reads soon: past the caches where the machine can.
  void (*stream)(std::byte* dst, const std::byte* src, std::size_t bytes);

  // The same, and the checksum of the bytes, in one pass. `cold`: the source is not in the caches.
  std::uint64_t (*store)(std::byte* dst, const std::byte* src, std::size_t bytes, bool cold);

  // What pack_storing() has left of it; returns the checksum of all.
  std::uint64_t (*store_rest)(Storing& storing);

  // Orders what store() and expand_past() wrote before all that the thread writes after it. (stream() does so
  // itself.)
  void (*fence)();

  std::uint64_t (*checksum)(const void* data, std::size_t bytes);  // XXH3-64, seed 0
};

const Kernels& scalar_kernels();
const Kernels* avx2_kernels();                  // null where the machine lacks AVX2 or BMI2
const Kernels* avx512_v4_kernels();             // null where it lacks these or AVX-512 F, BW, DQ or VL
const Kernels* avx512_kernels();                // null where it lacks these or VBMI2
const Kernels& kernels();                       // the best of these
std::span<const Kernels* const> all_kernels();  // those that the machine can run, the best first

}  // namespace terrace::compression
