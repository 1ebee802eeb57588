// What all swap planners look at: the times between two uses of a tensor, and the memory in use at each
// operation if nothing but what was decided so far moves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/planner/load_tree.h"
#include "daemon/planner/machine.h"
#include "liballoc/wire/schedule/schedule.h"
#include "liballoc/wire/trace.h"

namespace terrace::planner {

// Between two operations that name a tensor, the second of which needs its content. A gap that wraps, of a
// persistent tensor, leads from its last use to its first in the next step (`to` < `from`).
struct Gap {
  std::uint32_t tensor = 0;
  std::uint32_t from = 0, to = 0;
  bool wraps = false;
};

// In order of tensor and of `from`. Gaps without an operation between are left out, and empty tensors.
std::vector<Gap> gaps_of(const wire::Trace& trace);

// When operations begin if nothing ever stalls; one more entry, the end.
std::vector<double> ideal_starts_us(const wire::Trace& trace);

// The first operation that makes a gradient, as the kinds of the trace say; nothing if none does. A step of
// several passes (a GAN's) has its later forward passes after it.
std::optional<std::uint32_t> backward_begin(const wire::Trace& trace);

// Per operation, bytes that lie in tier 0 at it, workspaces included, if nothing moves; persistent tensors
// are always there.
std::vector<std::uint64_t> resident_bytes(const wire::Trace& trace);

// The same while tensors leave and come back; O(log n) each.
class Residency {
 public:
  explicit Residency(const wire::Trace& trace) { bytes_.reset(resident_bytes(trace)); }

  void remove(std::uint32_t begin, std::uint32_t end, std::uint64_t bytes) {  // [begin, end)
    bytes_.subtract(begin, end, bytes);
  }
  void add(std::uint32_t begin, std::uint32_t end, std::uint64_t bytes) { bytes_.add(begin, end, bytes); }
  bool exceeds(std::uint32_t begin, std::uint32_t end, std::uint64_t limit) const {
    return begin < end && bytes_.peak(begin, end).bytes > limit;
  }
  std::uint64_t most() const { return bytes_.peak_bytes(); }

  // The earliest position from which `bytes` may lie in memory until `end` without exceeding the limit; not
  // below `begin`.
  std::uint32_t earliest(std::uint32_t begin, std::uint32_t end, std::uint64_t bytes,
                         std::uint64_t limit) const;

 private:
  LoadTree bytes_;
};

// Room and speed of the tiers beyond tier 0, without one inside it; O(log n) for a question about room.
class FarTiers {
 public:
  FarTiers(const wire::Trace& trace, const Machine& machine);

  bool any() const { return !tiers_.empty(); }
  const std::vector<std::uint32_t>& tiers() const { return tiers_; }  // with a route, nearest first
  std::uint32_t farthest() const { return tiers_.back(); }
  double transfer_us(std::uint32_t tier, std::uint64_t bytes,
                     bool in) const;  // alone on its route; of any tier
  // Alone on the far route between these two, which there must be.
  double stage_us(std::uint32_t source, std::uint32_t target, std::uint64_t bytes) const;
  bool has_room(std::uint32_t tier, const Gap& gap, std::uint64_t bytes) const;
  void take(std::uint32_t tier, const Gap& gap, std::uint64_t bytes);
  // The nearest with room, which is then taken.
  std::optional<std::uint32_t> place(const Gap& gap, std::uint64_t bytes);

 private:
  const Machine& machine_;
  std::vector<std::uint32_t> tiers_;
  std::vector<LoadTree> used_;  // per tier of the machine, by operation
  std::uint32_t ops_;
};

// What leaves in a gap, and where to.
struct Offload {
  Gap gap;
  std::uint32_t tier = 0;
  std::uint32_t codec = 0;  // as in wire::ScheduleEntry
};

// Each leaves as soon as its gap begins. They come back in the order of need, each as early as the others
// leave room in tier 0 until it is needed, and no earlier than operation `first`.
std::vector<wire::ScheduleEntry> moves_of(const wire::Trace& trace, const Machine& machine,
                                          std::uint32_t first, std::vector<Offload> offloads);

// Entries by ordinal, those of one ordinal as they came; due by the tensor's next use.
wire::Schedule sorted_schedule(const wire::Trace& trace, const char* policy,
                               const std::vector<wire::ScheduleEntry>& entries);

}  // namespace terrace::planner
