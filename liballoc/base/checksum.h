// XXH3-64 of a stored run, seeded with its generation so that an older version of the same extent
// is as wrong as a flipped bit. The widest vector unit the machine has is chosen at the first
// call; all give the same sum.
#pragma once

#include <cstddef>
#include <cstdint>

namespace terrace::liballoc {

std::uint64_t checksum(const void* data, std::size_t bytes, std::uint64_t generation);

// The variants, for the test that they agree.
std::uint64_t checksum_sse2(const void* data, std::size_t bytes, std::uint64_t generation);
std::uint64_t checksum_avx2(const void* data, std::size_t bytes, std::uint64_t generation);

}  // namespace terrace::liballoc
