// One schedule that the daemon sent: the image, read in place, and an executor with what it needs.
//
// The image is a memfd that nobody can change or cut any more, which its seals say; without them it is
// refused, since what was checked once could be something else when it is used. All memory is mapped when it
// is opened and given back by close(): nothing here allocates. Belongs to who holds the gate.
//
//     executor │ its memory │ entry behind each entry │ first entry of each object │ next entry of each
//     object
#pragma once

#include <cstddef>
#include <cstdint>

#include "liballoc/wire/schedule/executor.h"
#include "liballoc/wire/schedule/image.h"

namespace terrace::liballoc {

// What came with wire::PlannedSchedule. The descriptor stays the caller's.
struct PlanOffer {
  std::uint32_t phase = 0;
  std::uint64_t period_hash = 0;
  std::uint64_t image_bytes = 0;   // 0: the daemon has no plan
  std::uint64_t budget_bytes = 0;  // that it was planned for
  int fd = -1;
};

class HeldSchedule {
 public:
  static constexpr std::uint32_t none = wire::Executor::none;
  // What one period of a job can need; more would be memory that no budget counts.
  static constexpr std::size_t most_bytes = std::size_t{16} << 20;
  static constexpr std::uint32_t most_entries = std::uint32_t{1} << 18;
  static constexpr std::uint32_t most_objects = std::uint32_t{1} << 17;

  constexpr HeldSchedule() = default;

  // "" or why it cannot be held, as a sentence without a full stop; then nothing is held. Static.
  const char* open(const PlanOffer& offer) noexcept;
  void close() noexcept;
  bool is_open() const { return executor_ != nullptr; }

  std::uint32_t period() const { return view_.header->period; }
  std::uint64_t budget_bytes() const { return budget_bytes_; }
  const wire::ScheduleView& view() const { return view_; }
  const wire::ScheduleEntry& entry(std::uint32_t e) const { return view_.entries[e]; }
  wire::Executor& executor() const { return *executor_; }

 private:
  const char* map(int fd) noexcept;
  const char* check() noexcept;
  const char* prepare() noexcept;
  std::size_t memory_bytes(const wire::ExecutorPlan& plan) const noexcept;

  std::byte* image_ = nullptr;
  std::size_t image_bytes_ = 0;
  std::byte* memory_ = nullptr;
  std::size_t memory_bytes_ = 0;
  std::uint64_t budget_bytes_ = 0;
  wire::ScheduleView view_;
  wire::Executor* executor_ = nullptr;
};

}  // namespace terrace::liballoc
