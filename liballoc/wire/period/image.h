// Opens the image of a period (period.h), which a job made and the daemon does not trust.
//
// A view exists only of an image whose every count, ordinal, sum and order was looked at, so whoever holds
// one may index with it and add its numbers up: all bytes of objects together are below 2^62, and so are all
// nanoseconds. The reader neither allocates nor throws, may run on any thread, and takes
// O(events + objects + uses). The bytes must not change afterwards: the daemon copies them first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "liballoc/wire/period/period.h"
#include "liballoc/wire/result.h"

namespace terrace::wire {

inline constexpr std::uint64_t most_period_sum = std::uint64_t{1} << 62;  // of bytes; of nanoseconds

enum class PeriodFault : std::uint8_t {
  none,
  too_short,
  misaligned,
  not_a_period,
  other_version,
  wrong_size,
  damaged,
  counts,
  policy,
  header_numbers,
  times,  // `index` from here on: of the event, the object or the use
  object_bytes,
  object_birth,
  object_order,
  object_place,
  object_death,
  object_uses,
  use_interval,
  use_order,
  use_flags,
  count
};
// A sentence without a full stop that says what is wrong; "" for none. Static.
const char* text_of(PeriodFault fault) noexcept;

// Into the image; good as long as its bytes are there and unchanged.
struct PeriodView {
  const PeriodHeader* header = nullptr;
  std::span<const PeriodEvent> events;
  std::span<const PeriodObject> objects;
  std::span<const PeriodUse> uses;

  std::span<const PeriodUse> uses_of(const PeriodObject& object) const noexcept {
    return uses.subspan(object.first_use, object.uses);
  }
  // Asked for by the job; empty: as the daemon has it.
  std::string_view policy() const noexcept;
};

struct OpenedPeriod {
  PeriodFault fault = PeriodFault::none;
  std::uint32_t index = 0;
  PeriodView view;  // empty with a fault
  explicit operator bool() const noexcept { return fault == PeriodFault::none; }
};

// The image may be followed by other bytes (a memfd may be larger).
OpenedPeriod open_period(std::span<const std::byte> bytes) noexcept;

// For tools and tests; these allocate. The agent writes its images without (docs/formats/period.md).
struct PeriodDraft {
  PeriodHeader header{};  // sizes, counts and the checksum are filled in
  std::vector<PeriodEvent> events;
  std::vector<PeriodObject> objects;
  std::vector<PeriodUse> uses;
};
// Opens what it wrote; refused with the fault.
Result<std::string> period_image(const PeriodDraft& draft);
// What is wrong with it, as one sentence with the index; empty for none.
std::string describe_fault(const OpenedPeriod& opened);

}  // namespace terrace::wire
