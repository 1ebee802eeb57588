// See file_transfer.h. System calls by number: the C library's pread and pwrite may be wrapped by the program
// we live in.
#include "tiers/file_transfer.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace terrace::tiers {
namespace {

constexpr std::uint64_t max_request_bytes = std::uint64_t{1} << 30;  // a request's length is 32 bits wide

std::int64_t move(int fd, Direction direction, const Piece& piece) noexcept {
  const long number = direction == Direction::read ? SYS_pread64 : SYS_pwrite64;
  const long result = ::syscall(number, fd, piece.buffer, piece.bytes, piece.offset);
  return result < 0 ? -errno : result;
}

}  // namespace

Piece rest_of(const Transfer& transfer, const Progress& progress) noexcept {
  return {static_cast<std::byte*>(transfer.buffer) + progress.done_bytes,
          std::min(progress.total_bytes - progress.done_bytes, max_request_bytes),
          transfer.extent.offset + progress.done_bytes};
}

int transfer_by_calls(const PoolFile& file, const Transfer& transfer, Progress progress) noexcept {
  if (!file.is_ours()) return EBADF;
  int error = 0;
  Step step = Step::again;
  while (step == Step::again)
    step = advance(progress, move(file.fd(), transfer.direction, rest_of(transfer, progress)), &error);
  return error;
}

}  // namespace terrace::tiers
