// Hand-made schedules, as the daemon would send them: an image in a sealed memfd.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "liballoc/paging/planned/held_schedule.h"
#include "liballoc/wire/schedule/image.h"

namespace terrace::liballoc::test {

inline constexpr int all_seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Owns the descriptor.
class SealedPlan {
 public:
  explicit SealedPlan(const std::string& image, int seals = all_seals) : bytes_(image.size()) {
    fd_ = ::memfd_create("plan", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd_ < 0 || ::write(fd_, image.data(), image.size()) != static_cast<ssize_t>(image.size()))
      std::abort();
    if (seals != 0 && ::fcntl(fd_, F_ADD_SEALS, seals) != 0) std::abort();
  }
  ~SealedPlan() { ::close(fd_); }
  SealedPlan(const SealedPlan&) = delete;
  SealedPlan& operator=(const SealedPlan&) = delete;

  PlanOffer offer(std::uint32_t phase, std::uint64_t hash, std::uint64_t budget = 0) const {
    return {.phase = phase, .period_hash = hash, .image_bytes = bytes_, .budget_bytes = budget, .fd = fd_};
  }

 private:
  std::size_t bytes_;
  int fd_ = -1;
};

inline std::string image_of(const wire::Schedule& schedule) {
  const auto image = wire::schedule_image(schedule, {"dram", "nvme"}, {});
  if (!image) {
    std::fprintf(stderr, "%s\n", image.error.c_str());
    std::abort();
  }
  return *image;
}

// Entries in any order; sorted by `at` when the schedule is asked for.
class PlanMaker {
 public:
  PlanMaker(std::uint32_t period, std::uint64_t hash) {
    schedule_.policy = "made by hand";
    schedule_.clock = wire::Clock::allocations;
    schedule_.period = period;
    schedule_.period_hash = hash;
  }
  // Its number.
  std::uint32_t object(std::uint32_t birth, std::uint64_t bytes, std::uint32_t place = 0) {
    schedule_.objects.push_back(
        {.id = schedule_.objects.size(), .bytes = bytes, .birth = birth, .place = place});
    return static_cast<std::uint32_t>(schedule_.objects.size() - 1);
  }
  void out(std::uint32_t object, std::uint32_t at, std::uint32_t by) {
    add(object, wire::Action::out, at, by);
  }
  void in(std::uint32_t object, std::uint32_t at, std::uint32_t by) { add(object, wire::Action::in, at, by); }
  void add(std::uint32_t object, wire::Action action, std::uint32_t at, std::uint32_t by,
           std::uint64_t begin = 0, std::uint64_t bytes = wire::whole_object) {
    schedule_.entries.push_back({.at = at,
                                 .object = object,
                                 .action = action,
                                 .tier = wire::moves(action) ? 1U : 0U,
                                 .by = by,
                                 .begin = begin,
                                 .bytes = bytes});
  }
  wire::Schedule& schedule() { return schedule_; }
  std::string image() {
    std::stable_sort(schedule_.entries.begin(), schedule_.entries.end(),
                     [](const auto& a, const auto& b) { return a.at < b.at; });
    return image_of(schedule_);
  }

 private:
  wire::Schedule schedule_;
};

}  // namespace terrace::liballoc::test
