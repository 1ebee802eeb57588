// System calls that reach into evicted pages. The kernel faults on the program's behalf, so the program sees
// EFAULT where the userfaultfd may not serve kernel accesses, and a hang where the agent itself needs what
// the caller holds.
#include <fcntl.h>
#include <liburing.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/hazards/hazard.h"

namespace terrace::hazards {
namespace {

constexpr std::size_t block_bytes = 16 * mib;
constexpr std::size_t fixed_bytes = 4 * mib;  // counts as locked memory, of which a normal user has 8 MiB

int open_scratch_file(int flags) {
  const int fd = open(pool_directory().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);
  HAZARD_CHECK(fd >= 0);
  return fd;
}

void* page_aligned(std::size_t bytes) {
  void* block = std::aligned_alloc(page_bytes, bytes);
  HAZARD_CHECK(block != nullptr);
  return block;
}

void* evicted_pattern(std::uint64_t seed) {
  void* block = page_aligned(block_bytes);
  fill_pattern(block, block_bytes, seed);
  evict(block, block_bytes);
  return block;
}

void write_all(int fd, const void* block) {
  HAZARD_CHECK(pwrite(fd, block, block_bytes, 0) == static_cast<ssize_t>(block_bytes));
}

void read_all(int fd, void* block) {
  HAZARD_CHECK(pread(fd, block, block_bytes, 0) == static_cast<ssize_t>(block_bytes));
}

void round_trip_through_file(int flags) {
  const int fd = open_scratch_file(flags);
  void* from = evicted_pattern(1);
  write_all(fd, from);
  void* to = evicted_pattern(2);
  read_all(fd, to);
  HAZARD_CHECK(count_wrong_pages(to, block_bytes, 1) == 0);
  HAZARD_CHECK(count_wrong_pages(from, block_bytes, 1) == 0);
  std::free(from);
  std::free(to);
  close(fd);
}

void vectors_and_sockets() {
  auto* from = static_cast<unsigned char*>(evicted_pattern(3));
  auto* to = static_cast<unsigned char*>(evicted_pattern(4));
  int ends[2];
  HAZARD_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  std::thread sender([&] {
    iovec parts[2] = {{from, block_bytes / 2}, {from + block_bytes / 2, block_bytes / 2}};
    for (iovec& part : parts) {
      for (std::size_t sent = 0; sent < part.iov_len;) {
        const ssize_t n = send(ends[0], static_cast<char*>(part.iov_base) + sent, part.iov_len - sent, 0);
        HAZARD_CHECK(n > 0);
        sent += static_cast<std::size_t>(n);
      }
    }
  });
  HAZARD_CHECK(recv(ends[1], to, block_bytes, MSG_WAITALL) == static_cast<ssize_t>(block_bytes));
  sender.join();
  HAZARD_CHECK(count_wrong_pages(to, block_bytes, 3) == 0);
  const int fd = open_scratch_file(0);
  evict(to, block_bytes);
  iovec parts[2] = {{to, 5 * mib}, {to + 5 * mib, block_bytes - 5 * mib}};
  HAZARD_CHECK(pwritev(fd, parts, 2, 0) == static_cast<ssize_t>(block_bytes));
  struct stat* information = reinterpret_cast<struct stat*>(to);
  evict(to, block_bytes);
  HAZARD_CHECK(fstat(fd, information) == 0 && information->st_size == static_cast<off_t>(block_bytes));
  close(fd);
  close(ends[0]);
  close(ends[1]);
  std::free(from);
  std::free(to);
}

void transfer_fixed(io_uring* ring, bool reading, int fd, void* block) {
  io_uring_sqe* entry = io_uring_get_sqe(ring);
  if (reading) {
    io_uring_prep_read_fixed(entry, fd, block, fixed_bytes, 0, 0);
  } else {
    io_uring_prep_write_fixed(entry, fd, block, fixed_bytes, 0, 0);
  }
  HAZARD_CHECK(io_uring_submit(ring) == 1);
  io_uring_cqe* completion = nullptr;
  HAZARD_CHECK(io_uring_wait_cqe(ring, &completion) == 0);
  HAZARD_CHECK(completion->res == static_cast<int>(fixed_bytes));
  io_uring_cqe_seen(ring, completion);
}

// Registration faults every page in and pins it, so the ranges are evicted before it.
void fixed_buffers() {
  io_uring ring;
  if (io_uring_queue_init(4, &ring, 0) != 0) {
    std::puts("io_uring is not available: its part is left out");
    return;
  }
  const int fd = open_scratch_file(O_DIRECT);
  void* block = evicted_pattern(5);
  const iovec buffer{block, fixed_bytes};
  HAZARD_CHECK(io_uring_register_buffers(&ring, &buffer, 1) == 0);
  transfer_fixed(&ring, false, fd, block);
  fill_pattern(block, fixed_bytes, 6);
  transfer_fixed(&ring, true, fd, block);
  HAZARD_CHECK(count_wrong_pages(block, block_bytes, 5) == 0);
  io_uring_queue_exit(&ring);
  evict(block, block_bytes);
  HAZARD_CHECK(count_wrong_pages(block, block_bytes, 5) == 0);
  std::free(block);
  close(fd);
}

}  // namespace

HAZARD_TEST(syscall_into_evicted_page) {
  require_pager();
  round_trip_through_file(0);
  round_trip_through_file(O_DIRECT);
  vectors_and_sockets();
  fixed_buffers();
}

namespace {

// A private view of /dev in which everybody may open the device, then no rights at all.
void become_nobody_with_device() {
  const bool prepared = unshare(CLONE_NEWNS) == 0 &&
                        mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                        mount("terrace-dev", "/mnt", "tmpfs", 0, "size=64k") == 0;
  struct stat device {};
  if (!prepared || stat("/dev/userfaultfd", &device) != 0 ||
      mknod("/mnt/userfaultfd", S_IFCHR | 0666, device.st_rdev) != 0 ||
      chmod("/mnt/userfaultfd", 0666) != 0 ||
      mount("/mnt/userfaultfd", "/dev/userfaultfd", nullptr, MS_BIND, nullptr) != 0) {
    _exit(exit_skip);
  }
  umount2("/mnt", MNT_DETACH);
  if (setgid(65534) != 0 || setuid(65534) != 0) _exit(exit_skip);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
}

}  // namespace

TEST_CASE("hazard_syscall_into_evicted_page_as_normal_user") {
  if (geteuid() != 0) return report_skip("setting up a device node for a normal user needs root");
  const ScratchDirectory pool;
  REQUIRE(chmod(pool.path().c_str(), 0777) == 0);
  for (const std::string& mover : movers()) {
    const Outcome outcome = run_scenario("syscall_into_evicted_page",
                                         {{"TERRACE_MOVER", mover}, {"TERRACE_POOL_DIR", pool.path()}},
                                         &become_nobody_with_device);
    INFO("mover " << mover << ", wait status " << outcome.status << "\n" << outcome.output);
    if (outcome.skipped) return report_skip("no userfaultfd for a normal user here: " + outcome.output);
    CHECK(outcome.held());
  }
}

}  // namespace terrace::hazards
