// liburing calls and what surrounds them; the reasons are in the header.
#include "tiers/uring.h"

#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>

#include "tiers/high_descriptor.h"

namespace terrace::tiers {
namespace {

constexpr int registered_file = 0;
constexpr int max_interruptions = 1000;

void prepare(io_uring_sqe* sqe, const Uring::Request& request) noexcept {
  if (request.direction == Direction::read)
    io_uring_prep_read(sqe, registered_file, request.buffer, request.bytes, request.offset);
  else
    io_uring_prep_write(sqe, registered_file, request.buffer, request.bytes, request.offset);
  sqe->flags |= IOSQE_FIXED_FILE;
  sqe->user_data = request.tag;
}

}  // namespace

int Uring::init(unsigned entries, int file) noexcept {
  assert(!open_);
  io_uring_params params{};
  if (const int error = -io_uring_queue_init_params(entries, &ring_, &params)) return error;
  open_ = true;
  ring_.ring_fd = ring_.enter_ring_fd = move_to_high_number(ring_.ring_fd);
  // RW_CUR_POS came with 5.6, as did the read and write operations themselves.
  const int error = (params.features & IORING_FEAT_RW_CUR_POS) != 0 ? start(file) : ENOSYS;
  if (error != 0) close();
  return error;
}

int Uring::start(int file) noexcept {
  if (const int error = -io_uring_ring_dontfork(&ring_)) return error;
  const int result = io_uring_register_files(&ring_, &file, 1);
  return result < 0 ? -result : 0;
}

int Uring::submit(const Request& request) noexcept {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  if (sqe == nullptr) return EBUSY;
  prepare(sqe, request);
  const int error = enter();
  if (error != 0) retract();
  return error;
}

int Uring::enter() noexcept {
  for (int attempt = 0; attempt < max_interruptions; ++attempt) {
    const int result = io_uring_submit(&ring_);
    if (result > 0) return 0;
    if (result != 0 && result != -EINTR) return -result;
  }
  return EINTR;
}

// Takes back the one entry that the kernel did not consume. It reads the queue only inside io_uring_enter
// (there is no SQPOLL thread), so moving the tail back here cannot race with it.
void Uring::retract() noexcept {
  ring_.sq.sqe_tail -= 1;
  ring_.sq.sqe_head = ring_.sq.sqe_tail;
  __atomic_store_n(ring_.sq.ktail, ring_.sq.sqe_tail, __ATOMIC_RELEASE);
}

std::size_t Uring::reap(std::span<Result> out) noexcept {
  std::size_t count = 0;
  unsigned head = 0;
  io_uring_cqe* cqe = nullptr;
  io_uring_for_each_cqe(&ring_, head, cqe) {
    if (count == out.size()) break;
    out[count++] = {cqe->user_data, cqe->res};
  }
  io_uring_cq_advance(&ring_, static_cast<unsigned>(count));
  return count;
}

int Uring::wait() noexcept {
  io_uring_cqe* cqe = nullptr;
  int result = -EINTR;
  while (result == -EINTR) result = io_uring_wait_cqe(&ring_, &cqe);
  return -result;
}

void Uring::close() noexcept {
  if (!open_) return;
  // Unregistering first drops the file now and not in the kernel's own time after the ring is gone.
  io_uring_unregister_files(&ring_);
  io_uring_queue_exit(&ring_);
  ring_ = {};
  open_ = false;
}

void Uring::abandon_in_child() noexcept {
  if (open_) ::close(ring_.ring_fd);
  ring_ = {};
  open_ = false;
}

}  // namespace terrace::tiers
