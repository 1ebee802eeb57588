// What a job knows of one period of its program: what the agent writes into a sealed memfd, and the daemon
// checks and plans from.
//
//     0        header_bytes
//     ├ header ┤ events … │ objects … │ uses … ┤ image_bytes        arrays 8 bytes aligned, in this order
//
// Event k is the k-th large allocation or free of the period (the clock `allocations` of schedule.h), and
// interval k goes from event k to the one behind it, the last one to the period's end. So operation k of a
// trace and ordinal k of a schedule are interval k and event k. An object is what of a block moves: the runs
// that are the block's alone. All other memory is `fixed_bytes`.
//
// Little endian. The checksum (XXH3, 64 bits) is over everything behind it. Neither side trusts the other:
// the job's plan cannot be better than what it says here, and nobody else's is touched by it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "liballoc/wire/schedule/schedule.h"

namespace terrace::wire {

inline constexpr std::uint64_t period_magic = 0x646f697265507354;  // "TsPeriod"
inline constexpr std::uint32_t period_version = 1;

inline constexpr std::uint32_t most_period_events = std::uint32_t{1} << 17;
inline constexpr std::uint32_t most_period_objects = std::uint32_t{1} << 17;
inline constexpr std::uint32_t most_period_uses = std::uint32_t{1} << 20;
inline constexpr std::size_t most_period_bytes = std::size_t{64} << 20U;

// Death of an object that outlives every period.
inline constexpr std::uint32_t never = UINT32_MAX;

struct PeriodHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::uint64_t image_bytes;
  std::uint64_t checksum;     // of the bytes from here on
  std::uint64_t period_hash;  // of the events' kinds and sizes; the schedule carries it back
  std::uint32_t phase;        // the event clock's
  std::uint32_t events, objects, uses;
  std::uint64_t budget_bytes;  // of the pager, as it is now
  std::uint64_t fixed_bytes;   // the most that is in DRAM beside the objects, staging included
  std::uint64_t step_ns;       // measured, as the job ran; with waited_ns of it waited
  std::uint64_t waited_ns;
  std::uint64_t read_bytes_per_second;  // of the tier, as measured by transfers of whole runs; 0: not yet
  std::uint64_t write_bytes_per_second;
  std::array<char, 24> policy;  // asked for by the job; empty: as the daemon has it
};
static_assert(sizeof(PeriodHeader) == 128);
inline constexpr std::size_t period_checksum_end = 32;

struct PeriodEvent {
  std::uint64_t ns;  // that interval k takes without waits: computing
};
static_assert(sizeof(PeriodEvent) == 8);

// Sorted by (birth, place), those that persist last. An object that is born late in a period may die in the
// next one: then its death is before its birth.
struct PeriodObject {
  std::uint64_t bytes;
  std::uint32_t birth;      // ordinal of its allocation; or `persistent`
  std::uint32_t place;      // 0; of what persists: the number by which the job knows the block
  std::uint32_t death;      // ordinal of its free; or `never`
  std::uint32_t first_use;  // into the uses
  std::uint32_t uses;       // how many
  std::uint32_t reserved;
};
static_assert(sizeof(PeriodObject) == 32);

// In time order from birth on (of what persists: from ordinal 0), so that those of what dies in the next
// period may wrap once. An interval stands once at most. No uses at all: nothing is known, and the object
// must be taken to be in use all its life.
struct PeriodUse {
  std::uint32_t interval;
  std::uint32_t flags;  // use_writes
};
inline constexpr std::uint32_t use_writes = 1;
static_assert(sizeof(PeriodUse) == 8);

}  // namespace terrace::wire
