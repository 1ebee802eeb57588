// Tensors that the tests compress: one for every rule and every edge of the format.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <string>

#include "machine.h"

namespace terrace::compression::cuda::test {

inline Bytes zeros(std::size_t n) { return Bytes(n); }

inline Bytes noise(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(n);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// Elements of `width` bytes; a share `density` of them is not zero. Runs make whole words of the mask zero.
inline Bytes sparse(std::size_t n, std::size_t width, double density, std::uint64_t seed,
                    std::size_t run = 1) {
  Bytes bytes = noise(n, seed);
  std::mt19937_64 random(seed + 1);
  std::uniform_real_distribution<double> uniform;
  bool keep = false;
  for (std::size_t i = 0; i < n / width; ++i) {
    if (i % run == 0) keep = uniform(random) < density;
    if (!keep) std::memset(bytes.data() + i * width, 0, width);
  }
  return bytes;
}

// What a ReLU makes of normal values, in any type: for 4 bytes as f32, for 2 as bf16, else small integers.
inline Bytes activations(std::size_t n, std::size_t width, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(-0.3F);
  Bytes bytes(n);
  for (std::size_t i = 0; i < n / width; ++i) {
    const float value = std::max(0.0F, normal(random));
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    if (width == 2) bits >>= 16;
    if (width == 1) bits >>= 23;
    const std::uint64_t wide = width == 8 ? std::uint64_t{bits} << 29 : bits;
    std::memcpy(bytes.data() + i * width, &wide, width);
  }
  return bytes;
}

inline Bytes repeated(std::size_t n, std::size_t width, std::uint64_t seed) {
  const Bytes element = noise(width, seed);
  Bytes bytes(n);
  for (std::size_t i = 0; i < n; ++i) bytes[i] = element[i % width];
  return bytes;
}

inline Bytes one_element_at(std::size_t n, std::size_t width, std::size_t index) {
  Bytes bytes(n);
  bytes[index * width + width - 1] = std::byte{0x80};  // -0.0 is a value
  return bytes;
}

}  // namespace terrace::compression::cuda::test
