// Where a job's counters and events go.
//
//   areas_ ─▶ ┌──────────┬──────────┬──────────┐
//             │  area 0  │  area 1  │  slack   │   1 MiB each: address space, memory only where touched
//             └──────────┴──────────┴──────────┘
//
// A daemon's segment is mapped over one area; the next daemon's over the other. An area is never unmapped, so
// a thread that was stopped in the middle of push() finds memory at its old address however many daemons came
// and went (the slack is for one that mixes the fields of two views). The segment of a dead daemon simply
// stays: it is the private mapping that the job writes to while nobody listens.
//
// push() by any thread, one at a time (the heap's lock); stats() and what it points to by any thread; all
// else by the agent's thread only.
#pragma once

#include <atomic>
#include <cstddef>

#include "liballoc/wire/protocol.h"
#include "liballoc/wire/segment.h"

namespace terrace::liballoc {

class Areas {
 public:
  // 0 or ENOMEM. Once is enough.
  int reserve() noexcept;
  // Writes go to the segment that a daemon gave. EBADMSG: it is not sound; errno of mmap.
  int use_segment(const wire::Welcome& welcome, int segment_fd) noexcept;
  // In a forked child, which must not write into its parent's segment.
  void detach() noexcept;

  // Never nullptr. Set absolute values: the memory behind it changes when another daemon takes over.
  wire::JobStats* stats() noexcept { return view().stats; }
  void push(const wire::Event& event) noexcept { view().ring.push(event); }

 private:
  // Two areas that take turns, so that a thread still writing to the old one always finds memory there.
  struct View {
    wire::JobStats* stats = nullptr;
    wire::RingWriter ring;
  };
  View& view() noexcept { return *view_.load(std::memory_order_acquire); }

  // Where writes go before an area is reserved.
  wire::EventRing unstarted_ring_ = {};
  wire::JobStats unstarted_stats_ = {};
  wire::Word unstarted_slots_[4 * wire::slot_words] = {};
  View views_[2] = {{&unstarted_stats_, wire::RingWriter(&unstarted_ring_, unstarted_slots_, 4)}, {}};
  std::atomic<View*> view_{&views_[0]};
  std::byte* areas_ = nullptr;  // once reserved
};

}  // namespace terrace::liballoc
