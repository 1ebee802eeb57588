#include "liballoc/agent/budget_follower.h"

#include <algorithm>
#include <initializer_list>

#include "liballoc/base/kernel_files.h"
#include "liballoc/base/kernel_text.h"
#include "liballoc/base/os.h"
#include "liballoc/base/own_descriptors.h"

namespace terrace::liballoc {
namespace {

constexpr std::uint64_t mib = 1ULL << 20;

// For the page cache of the program's own code, and for what grows outside the heap until the heap has made
// room for it.
std::uint64_t plain_reserve(std::uint64_t limit) { return std::max(48 * mib, limit / 32); }
// Where an allocation beyond the limit waits.
constexpr std::uint64_t least_reserve = 16 * mib;
constexpr std::uint64_t above_throttle = 4 * mib;  // of memory.high
constexpr std::uint64_t growths_in_reserve = 4;
constexpr std::uint64_t looks_remembered = 64;

// memory.stat costs 20 times the usage counter. Close to the limit it is read every time: there the kernel
// takes page cache away as anonymous memory grows, the usage stands still, and an old figure would have the
// heap grow into memory that is no longer there.
constexpr unsigned rounds_between_stat = 8;

int open_in(int directory, const char* name) { return keep_descriptor(open_kernel_file(directory, name)); }

bool read_number(int fd, std::uint64_t* value) {
  char text[64];
  return read_kernel_file(fd, text, sizeof(text)) && parse_number(text, value);
}

}  // namespace

int BudgetFollower::open(const char* cgroup_directory) {
  const int directory = open_kernel_file(AT_FDCWD, cgroup_directory, O_DIRECTORY);
  if (directory < 0) return errno;
  is_v2_ = (usage_fd_ = open_in(directory, "memory.current")) >= 0;
  if (!is_v2_) usage_fd_ = open_in(directory, "memory.usage_in_bytes");
  const int error = usage_fd_ < 0 ? errno : 0;
  limit_fd_ = open_in(directory, is_v2_ ? "memory.max" : "memory.limit_in_bytes");
  wait_fd_ = open_in(directory, is_v2_ ? "memory.high" : "memory.oom_control");
  stat_fd_ = open_in(directory, "memory.stat");
  os::close_fd(directory);
  if (error != 0 || limit_fd_ < 0 || stat_fd_ < 0) {
    close();
    return error != 0 ? error : ENOENT;
  }
  return 0;
}

void BudgetFollower::close() {
  for (int* fd : {&usage_fd_, &limit_fd_, &stat_fd_, &wait_fd_}) {
    close_kept(*fd);
    *fd = -1;
  }
}

std::uint64_t BudgetFollower::budget(std::uint64_t held_bytes, std::uint64_t most_bytes) {
  if (!read_number(usage_fd_, &usage_)) return most_bytes;
  if (!read_number(limit_fd_, &limit_)) limit_ = ~0ULL >> 1;  // "max"
  const bool is_close = usage_ + 2 * reserve_ > limit_;
  if (is_close || countdown_-- == 0) {
    countdown_ = rounds_between_stat;
    read_page_cache();
    read_throttle();
  }
  const std::uint64_t used = kept_bytes();
  fit_reserve(used - std::min(used, held_bytes));
  const std::uint64_t allowed = held_bytes + limit_;
  const std::uint64_t budget = allowed > used + reserve_ ? allowed - used - reserve_ : 0;
  return std::min(budget, most_bytes);
}

void BudgetFollower::read_page_cache() {
  char text[8192];
  std::uint64_t active = 0;
  std::uint64_t inactive = 0;
  if (!read_kernel_file(stat_fd_, text, sizeof(text))) return;
  find_field(text, "active_file", &active);
  find_field(text, "inactive_file", &inactive);
  page_cache_ = active + inactive;
}

void BudgetFollower::read_throttle() {
  waits_ = false;
  throttled_ = 0;
  char text[256];
  std::uint64_t value = 0;
  if (!read_kernel_file(wait_fd_, text, sizeof(text))) return;
  if (is_v2_) {
    waits_ = parse_number(text, &value) && value < limit_;
    throttled_ = waits_ ? limit_ - value : 0;
  } else {
    waits_ = find_field(text, "oom_kill_disable", &value) && value == 1;
  }
}

std::uint64_t BudgetFollower::pause_ns() const {
  return reserve_ < plain_reserve(limit_) ? 4'000'000 : 10'000'000;
}

// A multiple of what grew outside the heap from one look to the next, of which a little is forgotten with
// each look.
void BudgetFollower::fit_reserve(std::uint64_t outside) {
  const std::uint64_t least = std::max(least_reserve, throttled_ + above_throttle);
  const std::uint64_t most = std::max(plain_reserve(limit_), least);
  const std::uint64_t grown = outside - std::min(outside, outside_);
  outside_ = outside;
  growth_ = std::max(growth_ - growth_ / looks_remembered, grown);
  growth_ = std::min(growth_, most / growths_in_reserve);
  reserve_ = waits_ ? std::min(most, least + growths_in_reserve * growth_) : most;
}

}  // namespace terrace::liballoc
