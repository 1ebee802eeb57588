// What the tests of the tiers share: aligned buffers with a recognisable content, waiting, children, a small
// disk.
//
// Nothing here asserts through Catch2, so that forked children can use all of it.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "tiers/mapping.h"
#include "tiers/nvme_tier.h"
#include "tiers/tier.h"

namespace terrace::tiers::test {

inline constexpr std::uint64_t kib = 1024;
inline constexpr std::uint64_t mib = 1024 * kib;

// Page-aligned memory whose content is a function of (seed, position): a byte out of place shows.
class Buffer {
 public:
  explicit Buffer(std::uint64_t bytes) {
    if (mapping_.map(bytes) != 0) std::abort();
  }
  void* data() const { return mapping_.data(); }
  std::uint64_t bytes() const { return mapping_.bytes(); }
  unsigned char* at(std::uint64_t offset) const {
    return reinterpret_cast<unsigned char*>(mapping_.data()) + offset;
  }

  void fill(std::uint64_t seed) {
    for (std::uint64_t i = 0; i < words(); ++i) word(i) = value(seed, i);
  }
  bool holds(std::uint64_t seed) const {
    for (std::uint64_t i = 0; i < words(); ++i)
      if (word(i) != value(seed, i)) return false;
    return true;
  }

 private:
  std::uint64_t words() const { return mapping_.bytes() / sizeof(std::uint64_t); }
  std::uint64_t& word(std::uint64_t i) const { return reinterpret_cast<std::uint64_t*>(mapping_.data())[i]; }
  static std::uint64_t value(std::uint64_t seed, std::uint64_t i) {
    std::uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15 + i;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    return x ^ (x >> 27);
  }
  Mapping mapping_;
};

// Polls until nothing is in flight. A tier that forgets a transfer ends the wait after 30 s without progress
// and shows as a missing completion.
inline std::vector<Completion> finish(Tier& tier) {
  std::vector<Completion> all;
  for (int idle = 0; tier.in_flight() > 0 && idle < 300;) {
    Completion some[8];
    const std::size_t count = tier.poll(some);
    all.insert(all.end(), some, some + count);
    idle = count > 0 ? 0 : idle + 1;
    if (count > 0 || tier.wait_fd() < 0) continue;
    pollfd waited{tier.wait_fd(), POLLIN, 0};
    ::poll(&waited, 1, 100);
  }
  return all;
}

// One transfer from start to end: 0 or errno, from submit() or from the completion.
inline int transfer(Tier& tier, Direction direction, const Extent& extent, const Buffer& buffer) {
  if (const int error = tier.submit({direction, extent, buffer.data(), 7})) return error;
  const std::vector<Completion> done = finish(tier);
  if (done.size() != 1 || done[0].token != 7) return ETIME;
  return done[0].error;
}
inline int write(Tier& tier, const Extent& extent, const Buffer& buffer) {
  return transfer(tier, Direction::write, extent, buffer);
}
inline int read(Tier& tier, const Extent& extent, const Buffer& buffer) {
  return transfer(tier, Direction::read, extent, buffer);
}

// The high numbers of tiers/high_descriptor.h included.
inline int open_descriptors() {
  int count = 0;
  for (int fd = 0; fd < 8192; ++fd) count += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

// Runs `body` in a forked child; its return value (0 to 125), or 200 + the signal that ended it.
inline int in_child(const std::function<int()>& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) return 126;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 200 + WTERMSIG(status);
}

// What in_small_disk() returns when the machine does not let us mount.
inline constexpr int cannot_mount = 77;

// A directory of the test's own on the build directory's file system.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~TemporaryDirectory() { ::rmdir(path_.c_str()); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const char* path() const { return path_.c_str(); }

 private:
  std::string path_ = TERRACE_TEST_POOL_DIR "/drive-XXXXXX";
};

// Runs `body` in a child that sees a tmpfs of `bytes` of its own; the directory is its argument.
inline int in_small_disk(std::uint64_t bytes, const std::function<int(const char*)>& body) {
  std::string directory = TERRACE_TEST_POOL_DIR "/disk-XXXXXX";
  if (::mkdtemp(directory.data()) == nullptr) return 126;
  const int result = in_child([&] {
    const std::string size = "size=" + std::to_string(bytes);
    if (::unshare(CLONE_NEWNS) != 0) return cannot_mount;
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return cannot_mount;
    if (::mount("none", directory.c_str(), "tmpfs", 0, size.c_str()) != 0) return cannot_mount;
    return body(directory.c_str());
  });
  ::rmdir(directory.c_str());
  return result;
}

// An open NVMe tier on the build directory's file system, or on `directory`.
inline int open_nvme(NvmeTier& tier, const NvmeTier::Options& options, bool direct = true,
                     const char* directory = TERRACE_TEST_POOL_DIR) {
  int fd = -1;
  if (const int error = open_pool_file(directory, &fd, direct)) return error;
  const int error = tier.open(fd, options);
  if (error != 0) ::close(fd);
  return error;
}

}  // namespace terrace::tiers::test
