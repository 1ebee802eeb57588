// ReLU with Gist's binarize, and ReLU's backward pass from the mask (Jain et al., "Gist", ISCA 2018, section
// IV).
//
// A thread takes vectors of 16 bytes, four at once so that their loads overlap; the lanes of a warp that
// share 32 bits of the mask put them together by shuffles. Elements are compared as integers: one passes the
// gradient if its bits, as a signed number, are above 0 (positive, or a NaN without sign) or, unsigned, above
// those of minus infinity (a NaN with sign), as on the CPU (gist.h).
#pragma once

#include <type_traits>

#include "compression/base/element.h"
#include "compression/cuda/simt.cuh"

namespace terrace::compression::cuda {

inline constexpr u32 relu_vectors = 4;  // of a thread, in flight together

struct ReluWork {
  const u8* from;         // x, or dy
  u8* to;                 // y, or dx
  u32* mask;              // written, or read
  u64 bytes;              // of from and to
  u64 negative_infinity;  // forward only
};

// The bits of minus infinity; of the lowest number where there is none (OCP E4M3).
inline u64 negative_infinity_of(ElementType type) {
  if (type == ElementType::f8e4m3) return 0xfe;
  const ElementShape& shape = shape_of(type);
  return ((u64{2} << shape.exponent_bits) - 1) << shape.mantissa_bits;
}

TERRACE_DEVICE Vector load_vector(const u8* from, u64 bytes, u64 i) {
  if (i * 16 + 16 <= bytes) return reinterpret_cast<const Vector*>(from)[i];
  Vector vector{0, 0};
  for (u64 k = 0; i * 16 + k < bytes; ++k)
    (k < 8 ? vector.low : vector.high) |= u64{from[i * 16 + k]} << (k % 8 * 8);
  return vector;
}

TERRACE_DEVICE void store_vector(const Vector& vector, u8* to, u64 bytes, u64 i) {
  if (i * 16 + 16 <= bytes) {
    reinterpret_cast<Vector*>(to)[i] = vector;
    return;
  }
  for (u64 k = 0; i * 16 + k < bytes; ++k)
    to[i * 16 + k] = static_cast<u8>((k < 8 ? vector.low : vector.high) >> (k % 8 * 8));
}

template <typename T>
TERRACE_DEVICE T element_of(const Vector& vector, u32 k) {
  constexpr u32 half = 8 / sizeof(T);
  return static_cast<T>((k < half ? vector.low : vector.high) >> (k % half * 8 * sizeof(T)));
}

// A bit for each element of the vector.
template <typename T>
TERRACE_DEVICE u32 passing(const Vector& vector, T negative_infinity) {
  u32 bits = 0;
  TERRACE_UNROLL
  for (u32 k = 0; k < 16 / sizeof(T); ++k) {
    const T value = element_of<T>(vector, k);
    const bool passes = static_cast<std::make_signed_t<T>>(value) > 0 || value > negative_infinity;
    bits |= (passes ? 1U : 0U) << k;
  }
  return bits;
}

// Bits of so many elements of T, widened to all the elements' bits.
template <typename T>
TERRACE_DEVICE u64 widened(u32 bits) {
  u64 mask = 0;
  TERRACE_UNROLL
  for (u32 k = 0; k < 8 / sizeof(T); ++k)
    mask |= ((bits >> k & 1) != 0 ? u64{static_cast<T>(~T{0})} : 0) << (k * 8 * sizeof(T));
  return mask;
}

template <typename T>
TERRACE_DEVICE Vector keep(const Vector& vector, u32 bits) {
  return {vector.low & widened<T>(bits), vector.high & widened<T>(bits >> 8 / sizeof(T))};
}

// The mask's 32 bits that this lane's vector belongs to, from all lanes that share them.
template <typename T>
TERRACE_DEVICE u32 gather_mask(u32 bits) {
  constexpr u32 each = 16 / sizeof(T), lanes = 32 / each;
  u32 word = bits << (lane_index() % lanes * each);
  for (u32 step = 1; step < lanes; step *= 2) word |= simt::shuffle_xor(word, step);
  return word;
}

// Vectors that masks of whole 64-bit words have.
template <typename T>
TERRACE_DEVICE u64 vectors_of_mask(u64 bytes) {
  constexpr u64 word = 64 * sizeof(T);
  return (bytes + word - 1) / word * (word / 16);
}

// Calls step(first vector of four warps' worth) in every warp until all vectors are covered.
template <typename Step>
TERRACE_DEVICE void for_vectors(u64 vectors, const Step& step) {
  constexpr u64 stride = warp_lanes * relu_vectors;
  const u64 warps = u64{simt::cta_count()} * warp_count();
  for (u64 warp = u64{simt::cta_index()} * warp_count() + warp_index(); warp * stride < vectors;
       warp += warps)
    step(warp * stride + lane_index());
}

template <typename T>
TERRACE_DEVICE void relu_forward(const ReluWork& work) {
  constexpr u32 each = 16 / sizeof(T), lanes = 32 / each;
  const u64 vectors = vectors_of_mask<T>(work.bytes);
  for_vectors(vectors, [&](u64 first) {
    Vector held[relu_vectors];
    TERRACE_UNROLL
    for (u32 k = 0; k < relu_vectors; ++k)
      held[k] = load_vector(work.from, work.bytes, first + k * warp_lanes);
    TERRACE_UNROLL
    for (u32 k = 0; k < relu_vectors; ++k) {
      const u64 i = first + k * warp_lanes;
      const u32 bits = passing<T>(held[k], static_cast<T>(work.negative_infinity)),
                word = gather_mask<T>(bits);
      store_vector(keep<T>(held[k], bits), work.to, work.bytes, i);
      if (i % lanes == 0 && i < vectors) work.mask[i / lanes] = word;
    }
  });
}

template <typename T>
TERRACE_DEVICE void relu_backward(const ReluWork& work) {
  constexpr u32 each = 16 / sizeof(T), lanes = 32 / each;
  const u64 vectors = (work.bytes + 15) / 16;
  for_vectors(vectors, [&](u64 first) {
    Vector held[relu_vectors];
    u32 words[relu_vectors];
    TERRACE_UNROLL
    for (u32 k = 0; k < relu_vectors; ++k) {
      const u64 i = first + k * warp_lanes;
      held[k] = load_vector(work.from, work.bytes, i);
      words[k] = i < vectors ? work.mask[i / lanes] : 0;
    }
    TERRACE_UNROLL
    for (u32 k = 0; k < relu_vectors; ++k) {
      const u64 i = first + k * warp_lanes;
      store_vector(keep<T>(held[k], words[k] >> (i % lanes * each)), work.to, work.bytes, i);
    }
  });
}

}  // namespace terrace::compression::cuda
