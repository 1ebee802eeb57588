// What is learned of one phase while it is gone through again and again: its objects from birth to death,
// what lives throughout, when each of them is touched, and how long the program computes between two events.
//
// An object is known by the ordinal of the event that makes it, since the block is another one in each
// period; what persists by the number of its block. The table is told what happens and says what it knows;
// who takes runs out to find touches is the prober's business (paging/learning/).
//
// Memory is the caller's, zeroes at the beginning, `bytes` of it, of which what a period needs is touched:
// 32 bytes for an event, 152 for an object. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "liballoc/lifetimes/known_phase.h"
#include "liballoc/lifetimes/learned_uses.h"
#include "liballoc/lifetimes/recent_times.h"
#include "liballoc/lifetimes/repeats/clock_event.h"

namespace terrace::liballoc {

struct LearnedObject {
  std::uint32_t runs = 0;    // of 2 MiB that are its block's alone, in the last period
  std::uint32_t death = 0;   // ordinal
  std::uint32_t block = 0;   // of what persists
  std::uint8_t deaths = 0;   // times in a row that it died there, up to a few
  std::uint8_t rounds = 0;   // in which all of its life was probed, up to 255
  bool is_cut = false;       // the last probing of it stopped before its end …
  std::uint32_t resume = 0;  // … behind this interval
  LearnedUses uses;
};

class PeriodTable {
 public:
  static constexpr std::uint32_t most_events = KnownPhase::most_events;
  static constexpr std::uint32_t most_persistent = 1U << 14U;
  static constexpr std::uint32_t most_objects = most_events + most_persistent;
  static constexpr std::uint32_t none = UINT32_MAX;
  static const std::size_t bytes;

  void use(std::byte* memory);
  // Makes the memory zeroes again: as it was before begin().
  void clear();
  // Of a phase whose period has so many events, at most most_events. The memory is zeroes.
  void begin(std::uint32_t phase, std::uint32_t length);
  // Id of the event clock's; 0: none.
  std::uint32_t phase() const { return phase_; }
  std::uint32_t length() const { return length_; }

  // ---- what happens
  // ---------------------------------------------------------------------------------------- Event `ordinal`
  // made a block of so many granules, of which so many whole runs are its own.
  void note_birth(std::uint32_t ordinal, std::uint32_t granules, std::uint32_t runs);
  void note_growth(std::uint32_t ordinal, std::uint32_t object, std::uint32_t granules, std::uint32_t runs);
  // Event `ordinal` freed what event `born_at` of this period or an earlier one had made; no_ordinal:
  // something else.
  void note_death(std::uint32_t ordinal, std::uint32_t born_at);
  // Event `ordinal` is of no block's life.
  void note_mark(std::uint32_t ordinal);
  // A block that no event of the period makes or frees. Its object; none: there are too many.
  std::uint32_t add_persistent(std::uint32_t block, std::uint32_t runs);
  // Its block was freed.
  void drop_persistent(std::uint32_t object);
  // The object was touched; it was away, and not asked for.
  void note_touch(std::uint32_t object, PeriodPosition at);
  void note_idle(std::uint32_t object, PeriodPosition from, PeriodPosition to);
  // The program computed so long in an interval; in a period, of which it waited so long beside that.
  void note_computing(std::uint32_t interval, std::uint64_t ns);
  void note_period(std::uint64_t ns, std::uint64_t waited_ns);

  // ---- what is known
  // ---------------------------------------------------------------------------------------
  static bool is_persistent(std::uint32_t object) { return object >= most_events; }
  LearnedObject& operator[](std::uint32_t object) { return objects_[object]; }
  const LearnedObject& operator[](std::uint32_t object) const { return objects_[object]; }
  // Past the last of what persists.
  std::uint32_t persistent_end() const { return most_events + persistent_; }
  LearnedUses::Frame frame_of(std::uint32_t object) const {
    return {is_persistent(object) ? 0 : object, length_};
  }
  // Whether it moves and dies where it did before, or never. What is no object of a plan is memory that
  // stays.
  bool is_planned(std::uint32_t object) const;
  // Whether a use of it in that interval falls into its life.
  bool is_alive_in(std::uint32_t object, std::uint32_t interval) const;
  // Whether enough is known for a plan: two whole periods have been seen, and of each object whether and when
  // it is touched. Probing has a budget, which short steps of many objects exhaust: after some periods a
  // touch of each is enough, and after more of them what is there.
  bool is_complete() const;
  // The fewest rounds in which any of the planned objects was probed.
  std::uint32_t least_rounds() const;
  // Of kinds and sizes of the events.
  std::uint64_t hash() const;
  // Grows by one with each use that begins or ceases to count.
  std::uint64_t changes() const { return changes_; }
  std::uint32_t periods() const { return periods_; }
  std::uint64_t step_ns() const { return step_.median_ns(); }
  std::uint64_t waited_ns() const { return waited_.median_ns(); }
  // Medians, by interval, into out[0, length). Intervals that were never measured share what is left of the
  // step.
  void fill_computing(std::uint64_t* out) const;

 private:
  enum class Kind : std::uint8_t { unseen, allocated, grown, freed, marked };
  struct Event {
    std::uint32_t granules = 0;  // that came; 0 of a free
    Kind kind = Kind::unseen;
  };

  template <typename Visit>
  bool each_planned(Visit visit) const;

  Event* events_ = nullptr;
  RecentTimes* times_ = nullptr;
  LearnedObject* objects_ = nullptr;
  std::uint32_t phase_ = 0;
  std::uint32_t length_ = 0;
  std::uint32_t persistent_ = 0;  // with those that were dropped
  std::uint32_t free_ = none;     // one of those, the next in its `death`
  std::uint32_t periods_ = 0;
  std::uint64_t changes_ = 0;
  RecentTimes step_, waited_;
};

}  // namespace terrace::liballoc
