#include "liballoc/base/own_descriptors.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstddef>

#include "liballoc/base/os.h"
#include "tiers/high_descriptor.h"

namespace terrace::liballoc {

constinit std::atomic<int> lowest_kept{INT_MAX};

namespace {

// Zeroes: not known, as the system call was refused (a sandbox) when the number was noted.
struct Identity {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const Identity&) const = default;
};

struct Entry {
  std::atomic<int> mark{0};  // 0: free, -1: being written, else the number plus one
  std::atomic<dev_t> device{0};
  std::atomic<ino_t> inode{0};
  std::atomic<bool> vital{false};

  int number() const { return mark.load(std::memory_order_acquire) - 1; }
  Identity identity() const { return {device.load(), inode.load()}; }
};

// One pipe for each of 256 children and a dozen more. What does not fit is not protected.
constexpr std::size_t most_entries = 512;
constinit Entry entries[most_entries];
constinit std::atomic<std::size_t> used{0};

int identity_of(int fd, Identity* out) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return errno;
  *out = {status.st_dev, status.st_ino};
  return 0;
}

// A refusal tells nothing of the file.
bool means(int fd, const Identity& expected) {
  Identity found;
  const int error = identity_of(fd, &found);
  if (error != 0) return error != EBADF && (::fcntl(fd, F_GETFD) != -1 || errno != EBADF);
  return expected == Identity{} || found == expected;
}

Entry* find(int fd) {
  const std::size_t end = used.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < end; ++i)
    if (entries[i].number() == fd) return &entries[i];
  return nullptr;
}

Entry* claim() {
  for (std::size_t i = 0; i < most_entries; ++i) {
    int free = 0;
    if (!entries[i].mark.compare_exchange_strong(free, -1)) continue;
    std::size_t end = used.load();
    while (end < i + 1 && !used.compare_exchange_weak(end, i + 1)) {
    }
    return &entries[i];
  }
  return nullptr;
}

// Looked at twice: its owner may be closing it in this moment, and another take its place.
bool is_lost(const Entry& entry) {
  const int fd = entry.number();
  const Identity expected = entry.identity();
  if (fd < 0 || !entry.vital.load() || means(fd, expected)) return false;
  return entry.number() == fd && entry.identity() == expected;
}

}  // namespace

void note_descriptor(int fd, Descriptor kind) {
  Identity identity;
  if (fd < 0 || identity_of(fd, &identity) == EBADF) return;
  Entry* entry = claim();
  if (entry == nullptr) return;
  entry->device.store(identity.device);
  entry->inode.store(identity.inode);
  entry->vital.store(kind == Descriptor::vital);
  entry->mark.store(fd + 1, std::memory_order_release);
  int lowest = lowest_kept.load();
  while (fd < lowest && !lowest_kept.compare_exchange_weak(lowest, fd)) {
  }
}

int keep_descriptor(int fd, Descriptor kind) {
  const int kept = tiers::move_to_high_number(fd);
  note_descriptor(kept, kind);
  return kept;
}

void forget_descriptor(int fd) {
  Entry* entry = fd >= 0 ? find(fd) : nullptr;
  if (entry != nullptr) entry->mark.store(0, std::memory_order_release);
}

void forget_all_descriptors() {
  for (Entry& entry : entries) entry.mark.store(0, std::memory_order_release);
}

void close_kept(int fd) {
  const bool is_ours = is_intact(fd);
  forget_descriptor(fd);
  if (is_ours) tiers::close_by_system_call(fd);
}

bool is_intact(int fd) {
  const Entry* entry = fd >= 0 ? find(fd) : nullptr;
  return entry != nullptr && means(fd, entry->identity());
}

int first_lost_descriptor() {
  const std::size_t end = used.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < end; ++i) {
    const int fd = entries[i].number();
    if (is_lost(entries[i])) return fd;
  }
  return -1;
}

int next_kept(int from) {
  int next = INT_MAX;
  const std::size_t end = used.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < end; ++i) {
    const int fd = entries[i].number();
    if (fd >= from && fd >= 0 && fd < next && is_intact(fd)) next = fd;
  }
  return next;
}

}  // namespace terrace::liballoc
