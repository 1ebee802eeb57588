// What the schedule brings back: reads the runs of the entries that are due, in the order of the executor's
// lane, and has each put under its address as soon as it is in a frame, so that the program does not wait
// for it.
//
//     lane ─► under way, oldest first        an entry's runs:  … arrived │ being read … │ to be read …
//                                                                        ↑ next         ↑ to_read
//
// The next entry is begun when all runs of the one before it are being read or need not be: one that lacks
// room waits, and nobody overtakes it. A run is read once for each entry: if it is not there after that, a
// touch brings it. Belongs to who holds the gate.
#pragma once

#include <array>
#include <cstdint>

#include "liballoc/paging/planned/course.h"

namespace terrace::liballoc {

class PlannedReturns {
 public:
  constexpr PlannedReturns(const PolicyParts& parts, const Course& course) : parts_(parts), course_(course) {}

  // Whether some entry may have a run to read. Room is the caller's to know.
  bool are_due() const;
  // Whether what is read next is needed now.
  bool is_urgent() const;
  // A run to read, or none. It is given again until it is being read.
  std::uint32_t next_read();
  // A run in a frame that belongs under its address now, or none.
  std::uint32_t next_return();
  // Run n of the object is touched and is not there: the entry that was to have brought it by now, or none.
  std::uint32_t awaited(std::uint32_t object, std::uint32_t n) const;
  // What waits beyond its deadline goes before all others.
  void hurry_overdue();
  // The object ends.
  void forget(std::uint32_t object);
  // The schedule is not followed any more. While it is still mapped.
  void stop();
  // Memory was short: entries under way came too early, if they came early.
  void note_shortage() { ++shortages_; }

 private:
  static constexpr std::uint32_t lane = wire::Executor::lane(0, wire::Way::in);
  static constexpr std::size_t most_under_way = 32;
  struct UnderWay {
    std::uint32_t entry = none;
    std::uint32_t block = 0;
    std::uint32_t next = 0;
    std::uint32_t to_read = 0;
    std::uint32_t end = 0;
    std::uint32_t shortages = 0;  // when it began
  };
  enum class Place : std::uint8_t { arrived, in_frame, on_its_way, away };

  Place place_of(std::uint32_t n, const UnderWay& u) const;
  bool can_read(std::uint32_t n, const UnderWay& u) const;
  void begin_more();
  bool skip_to_read(UnderWay& u);
  bool is_over(UnderWay& u);
  void end(std::size_t at);
  void remove(std::size_t at);

  const PolicyParts& parts_;
  const Course& course_;
  std::array<UnderWay, most_under_way> under_way_{};
  std::size_t count_ = 0;
  std::uint32_t offered_ = none;  // given by next_read() last
  std::uint32_t shortages_ = 0;
};

}  // namespace terrace::liballoc
