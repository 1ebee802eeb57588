// The state of every run (2 MiB of the heap's address space) and the lists that order them.
//
//                 take                 write done              reclaim
//      resident ────────► staged ► writing ────────► cached ───────────► stored
//         ▲  ▲               │        │   (in frame and  │  ▲              │
//         │  └──── touch ────┴────────┴─────  stored) ───┘  └─ reading ◄───┘
//         │ first touch                                     (verified)     touch, read ahead
//       empty                                        any failure to get the bytes back: lost
//
// The state is that of the run's frame and of the work on it; where each of its pages lies is in the page
// table (page_table.h). A run may be resident in part: touches that are scattered bring single pages
// back, from a frame as from the tier. `cached` means: what is in the frame is on the tier as well, so a
// touch costs one move and a shortage costs nothing. A resident run keeps its extent, so that what comes back
// unchanged leaves without a write. Lists are doubly linked through the records, each run is on at most one;
// which one follows from its state (RunTable::list_of). Only who holds the gate changes states.
#pragma once

#include <cstdint>

#include "liballoc/heap/space/address_space.h"

namespace terrace::liballoc {

inline constexpr std::uint32_t none = ~0U;

inline constexpr std::uint8_t most_heat = 3;

// What is remembered of a run's touches (policy/reach.h).
struct TouchTrace {
  std::uint16_t end = 0;      // of the last piece that came
  std::uint16_t pages = 0;    // of that
  std::uint16_t touches = 0;  // within the present window
  std::uint16_t window = 0;
};

// Touches of single pages of a run (policy/whole_runs.h).
struct LoneTouches {
  std::uint32_t came = 0;   // when it would have come as a whole; 0: never
  std::uint16_t count = 0;  // since then
};

enum class RunState : std::uint8_t { empty, resident, staged, writing, cached, stored, reading, lost };

// When a resident run leaves, compared with others.
enum class Turn : std::uint8_t { first, usual, last };

class RunList;

struct Run {
  std::uint32_t previous = none;
  std::uint32_t next = none;
  std::uint32_t block = 0;        // the block that owns it whole; 0: none or several
  std::uint32_t frame = none;     // staging frame that holds its bytes
  std::uint64_t slot_offset = 0;  // extent on the tier
  std::uint64_t sum = 0;          // of the stored bytes, if they are compressed (run_codec.h)
  std::uint64_t wait_since_ns = 0;
  std::uint32_t generation = 0;  // of the stored bytes; seeds the sum
  std::uint32_t slot_epoch = 0;  // fork epoch at which the slot was taken
  std::uint32_t slot_bytes = 0;  // length of the extent: run_bytes, less when compressed
  std::uint32_t arrival = 0;     // the pager's count of arrivals when it came into its list
  std::uint32_t came = 0;        // that count when it came last, wherever it went since
  std::uint32_t left = 0;        // that count when it left last
  std::uint16_t live = 0;        // live blocks that overlap it
  std::uint16_t pins = 0;
  std::uint16_t listed_pages = 0;  // memory of its frame, as its list counts it
  std::uint16_t head = 0;          // page at which the block begins that came last
  TouchTrace trace;                // of touches that brought a part of it
  LoneTouches lone;
  RunList* list = nullptr;  // the one it is on
  RunState state = RunState::empty;
  Turn turn = Turn::usual;
  Turn left_turn = Turn::usual;  // when it left, until it comes back
  std::uint8_t heat = 0;         // rounds that it is spared: times it was brought back while still being live
  std::uint8_t pieces = 0;       // of it, on their way from the tier
  std::uint8_t returns = 0;      // times that it came back from the tier as a whole, up to a few
  bool has_slot : 1 = false;
  bool waiting : 1 = false;     // a thread waits for it
  bool page_out : 1 = false;    // give its frame back as soon as it is written
  bool from_read : 1 = false;   // cached by read-ahead rather than by eviction
  bool late : 1 = false;        // the same, and its time went by unused
  bool zero_fill : 1 = false;   // empty, and its next first touch must see zeroes
  bool left_empty : 1 = false;  // empty, since all that it had when it left was zeroes
  bool may_have_holes : 1 =
      false;                    // pages that are thought to be in place may be missing: the program's doing
  bool long_lived : 1 = false;  // its block's hints: to be spared, to go first
  bool cold : 1 = false;
  bool queued : 1 = false;     // in the queue of runs that wait for a frame
  bool locked : 1 = false;     // by the program, some of its pages: one of its pins is for them
  bool stuck : 1 = false;      // staged, but to be put back: the kernel refused it, and is asked again
  bool in_flight : 1 = false;  // a write of it has not ended
  bool scattered : 1 = false;  // its touches bring pages, not all of it
  bool dense : 1 = false;  // came back page by page once, and soon most of it was there: all of it is used
  bool was_dirty : 1 = false;      // something of it had to be written when it left last
  bool left_as_usual : 1 = false;  // before what leaves last, and was not touched since
  bool small : 1 = false;          // its memory is in small pages
  bool shrinks : 1 = false;        // made a frame that is worth its place in DRAM when it left last
  bool has_sums : 1 = false;       // memory for the sums of its pages
  bool held : 1 = false;    // staged, but not to be written yet: what is touched again goes back before
  bool probed : 1 = false;  // staged only to see when it is touched, never to be written for that
};

// A list of runs; front is the oldest.
class RunList {
 public:
  void attach(Run* runs) { runs_ = runs; }
  std::uint32_t front() const { return front_; }
  std::uint32_t back() const { return back_; }
  std::uint32_t size() const { return size_; }
  bool is_empty() const { return size_ == 0; }

  void push_back(std::uint32_t n) {
    runs_[n].previous = back_;
    runs_[n].next = none;
    (back_ == none ? front_ : runs_[back_].next) = n;
    back_ = n;
    added(n);
  }
  void push_front(std::uint32_t n) {
    runs_[n].next = front_;
    runs_[n].previous = none;
    (front_ == none ? back_ : runs_[front_].previous) = n;
    front_ = n;
    added(n);
  }
  void remove(std::uint32_t n) {
    Run& r = runs_[n];
    (r.previous == none ? front_ : runs_[r.previous].next) = r.next;
    (r.next == none ? back_ : runs_[r.next].previous) = r.previous;
    r.previous = r.next = none;
    r.list = nullptr;
    --size_;
  }

 private:
  void added(std::uint32_t n) {
    runs_[n].list = this;
    ++size_;
  }

  Run* runs_ = nullptr;
  std::uint32_t front_ = none;
  std::uint32_t back_ = none;
  std::uint32_t size_ = 0;
};

}  // namespace terrace::liballoc
