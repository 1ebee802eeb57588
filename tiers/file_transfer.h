// A transfer between memory and a file by pread and pwrite, from beginning to end: for files that are memory
// themselves, and where there is no ring.
#pragma once

#include "tiers/pool_file.h"
#include "tiers/tier.h"
#include "tiers/transfer.h"

namespace terrace::tiers {

// What is left of a transfer that has come so far.
struct Piece {
  std::byte* buffer;
  std::uint64_t bytes;
  std::uint64_t offset;
};
Piece rest_of(const Transfer& transfer, const Progress& progress) noexcept;

// Carries out what is left of a checked transfer. 0 or errno; EBADF: the descriptor is another file's by now.
// Any thread; waits as long as the file does.
int transfer_by_calls(const PoolFile& file, const Transfer& transfer, Progress progress) noexcept;

inline int transfer_by_calls(const PoolFile& file, const Transfer& transfer) noexcept {
  return transfer_by_calls(file, transfer, {.total_bytes = transfer.extent.bytes});
}

}  // namespace terrace::tiers
