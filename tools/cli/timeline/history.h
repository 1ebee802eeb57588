// What a recording says of the job's objects: when each was born and died, when it was away from DRAM, and
// who waited for it. An object is one large allocation. Pure.
//
// Touches of what is in DRAM leave no trace, so that of an object that never left only birth and death are
// known. What was there before the recording began is known by what happened to it: where its death was seen
// as the allocation that it was, else as neighbouring runs from one call site.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/cli/timeline/recording.h"

namespace terrace::cli {

inline constexpr std::uint32_t no_object = ~0U;
inline constexpr std::uint32_t no_place = ~0U;  // born while no step was known

struct ObjectLife {
  std::uint64_t session = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t call_site = 0;
  std::uint64_t born_ns = 0;    // 0: before the recording began
  std::uint64_t died_ns = 0;    // 0: it lived on when that ended
  std::uint32_t evictions = 0;  // of runs of it
  std::uint32_t returns = 0;    // likewise
  std::uint32_t waits = 0;
  std::uint64_t wait_ns = 0;
  std::uint64_t first_touch_ns = 0;  // of those that had to wait, 0: none
  std::uint64_t last_touch_ns = 0;
  double away_byte_seconds = 0;  // bytes by the time they were away: how much idle memory it would have been
  std::uint64_t away_bytes = 0;  // at the end
  // Which allocation of its step it was, from 0 on; and when in the step, and of which kind that is.
  std::uint32_t place = no_place;
  std::uint64_t since_step_ns = 0;
  std::uint64_t step_kind = 0;
};

enum class WaitCause : std::uint8_t {
  pool,      // the bytes had to be read, verified and perhaps decoded
  put_back,  // they were still in a frame in DRAM
  leaving,   // they were just on their way out
};
inline constexpr std::size_t wait_causes = 3;
const char* name_of(WaitCause cause);

struct ObjectWait {
  std::uint64_t since_ns = 0, ns = 0;
  std::uint32_t object = no_object;
  WaitCause cause = WaitCause::pool;
};

// A run of pages was not at its address.
struct Absence {
  std::uint32_t object = no_object;
  std::uint64_t address = 0;
  std::uint64_t from_ns = 0;
  std::uint64_t to_ns = 0;
};

// The program began anew what it repeats, as the job's own clock tells (paging/step_clock.h).
struct StepBegin {
  std::uint64_t time_ns = 0;
  std::uint64_t session = 0;
  std::uint64_t kind = 0;    // of several that it may have
  std::uint64_t events = 0;  // of its period
  std::uint64_t ns = 0;      // to the next one's begin; 0: the program left it, or its end was not seen
};

struct History {
  std::vector<ObjectLife> objects;  // in the order of their births, those from before first
  std::vector<ObjectWait> waits;    // in the order of their ends
  std::vector<Absence> absences;    // likewise; those that last beyond the end of the recording end with it
  std::vector<StepBegin> steps;     // in the order of time
  // Of which object each event of the recording tells, or no_object.
  std::vector<std::uint32_t> object_of_event;
  std::uint64_t peak_ns = 0;  // when most bytes were live, of the objects that are known
  std::uint64_t peak_bytes = 0;
};

History history_of(const Recording& recording);

}  // namespace terrace::cli
