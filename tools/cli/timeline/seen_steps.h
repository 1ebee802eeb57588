// The steps of a recording that were seen from their beginning to the next one's, and which of them are
// alike. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "liballoc/wire/result.h"
#include "tools/cli/timeline/history.h"

namespace terrace::cli {

// An object by what it is to a step, so that it has the same name in each of them. Of a step of its process
// the allocation number `place`, made `age` steps ago; else an object of its own, or where only runs of pages
// are known one of these.
struct Role {
  std::uint64_t step_kind = 0;
  std::uint64_t age = 0;
  std::uint64_t run = 0;  // address; 0: the whole object
  std::uint32_t place = no_place;
  std::uint32_t object = no_object;
  auto parts() const { return std::tie(step_kind, age, run, place, object); }
  friend bool operator==(const Role& a, const Role& b) { return a.parts() == b.parts(); }
  friend bool operator<(const Role& a, const Role& b) { return a.parts() < b.parts(); }
};

// A block came or went.
struct Tick {
  Role role;
  std::uint64_t bytes = 0;
  bool is_birth = false;
  auto parts() const { return std::tie(role, bytes, is_birth); }
  friend bool operator==(const Tick& a, const Tick& b) { return a.parts() == b.parts(); }
  friend bool operator<(const Tick& a, const Tick& b) { return a.parts() < b.parts(); }
};

struct SeenStep {
  std::uint64_t session = 0, kind = 0;
  std::uint64_t number = 0;  // of its process's, whole or not
  std::uint64_t begin_ns = 0, end_ns = 0;
  std::size_t first_event = 0, end_event = 0;  // of the recording
  bool has_gap = false;                        // events may have been missed
  std::vector<Tick> ticks = {};
  std::vector<std::uint64_t> tick_ns = {};

  std::uint64_t ns() const { return end_ns - begin_ns; }
};

// Which role an object has in a step.
class Roles {
 public:
  Roles(const Recording& recording, const History& history);

  // `address`: where it was touched.
  Role of(std::uint32_t object, std::uint64_t address, std::uint64_t step_number) const;
  // There before, and never seen to end: its size is not known, its runs are.
  bool is_known_by_runs(std::uint32_t object) const;

 private:
  const History& history_;
  std::vector<std::uint64_t> born_in_;  // by object: the number of its process's step
};

struct LikeSteps {
  std::vector<SeenStep> steps;  // at least two, in the order of time, all with the same ticks
  std::uint64_t whole = 0;      // of their kind, whatever their ticks
};

// Those of the process and kind that most time went into; of these, the sequence that came most often. Or why
// there are none, and what to do.
Result<LikeSteps> like_steps(const Recording& recording, const History& history, const Roles& roles);

}  // namespace terrace::cli
