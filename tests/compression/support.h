// What the tests of the codecs share: contents that have broken other codecs, frames of them, and the repair
// of a damaged frame's checksums, without which a test of damage never gets past the first check.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "compression/compressor.h"

namespace terrace::compression::test {

using Bytes = std::vector<std::byte>;

inline constexpr Codec every_codec[] = {Codec::raw,  Codec::zvc, Codec::zvc_exp, Codec::rle,
                                        Codec::csr8, Codec::lz4, Codec::zstd};
inline constexpr ElementType every_type[] = {
    ElementType::u8,     ElementType::u16, ElementType::u32,  ElementType::u64, ElementType::f8e4m3,
    ElementType::f8e5m2, ElementType::f16, ElementType::bf16, ElementType::f32, ElementType::f64};

// lz4 and zstd see bytes, not elements, and have no kernels of ours: one set says all there is.
constexpr bool is_external(Codec codec) { return codec == Codec::lz4 || codec == Codec::zstd; }

Workspace& workspace();  // of the calling thread, ending at an inaccessible page

// How the elements of a test's content are filled.
struct Pattern {
  std::string name;
  void (*fill)(ElementType type, std::size_t elements, std::byte* to, std::mt19937_64& random);
};
std::span<const Pattern> patterns();
Bytes content_of(const Pattern& pattern, ElementType type, std::size_t elements);

// Independent draws with so many non-zero elements in a thousand; values half-normal in their type, or any
// bits.
Bytes random_content(ElementType type, std::size_t elements, unsigned per_mille, std::mt19937_64& random);

struct Framed {
  FrameError error = FrameError::none;
  Bytes frame;
};
Framed compressed(std::span<const std::byte> content, const FrameOptions& options,
                  const Kernels& with = kernels());

// Makes the checksums fit again: of the blocks that lie within the frame, of the table, of the header. Any
// bytes may be given; fields that point nowhere are left alone.
void repair_blocks(std::span<std::byte> frame);
void repair_table(std::span<std::byte> frame);
void repair_header(std::span<std::byte> frame);

}  // namespace terrace::compression::test
