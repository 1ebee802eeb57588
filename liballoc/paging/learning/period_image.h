// What was learned of a phase as an image for the daemon (wire/period/period.h), in a sealed memfd.
#pragma once

#include <cstdint>

#include "liballoc/lifetimes/period_table.h"
#include "liballoc/paging/learning/period_sink.h"

namespace terrace::liballoc {

// What stands in the image beside the table.
struct PeriodFacts {
  std::uint64_t budget_bytes = 0;
  std::uint64_t fixed_bytes = 0;
  std::uint64_t read_bytes_per_second = 0, write_bytes_per_second = 0;
  const char* policy = "";  // up to 23 characters
};

// What persists, in the order of its blocks' numbers. Both are asked in the agent's thread and may not wait.
class PersistentObjects {
 public:
  // The first at or behind block `*block`, which is set to its number; PeriodTable::none: no more.
  virtual std::uint32_t next(std::uint32_t* block) = 0;
  // Whether the object was found unchanged when it left last.
  virtual bool is_read_only(std::uint32_t object) = 0;

 protected:
  constexpr PersistentObjects() = default;
  ~PersistentObjects() = default;
};

// 0 and *out, whose descriptor is the caller's, noted (base/own_descriptors.h): close_kept() closes it;
// *uses: how many are in it. EMFILE, ENOMEM and the like; E2BIG: the period is larger than the form allows.
// Takes time in proportion to events and objects.
int write_period_image(const PeriodTable& table, const PeriodFacts& facts, PersistentObjects& persistent,
                       LearnedPeriod* out, std::uint32_t* uses);

}  // namespace terrace::liballoc
