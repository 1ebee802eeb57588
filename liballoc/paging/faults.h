// What a touch of a page sets off that is not there: the page comes from where it is, with as many around it
// as the touch lets expect (policy/reach.h). Belongs to who holds the gate.
#pragma once

#include <cstdint>

#include "liballoc/paging/learning/touch_listener.h"
#include "liballoc/paging/memory/placement.h"
#include "liballoc/paging/policy/frame_returns.h"
#include "liballoc/paging/policy/reach.h"
#include "liballoc/paging/policy/recent_arrivals.h"
#include "liballoc/paging/policy/strides.h"
#include "liballoc/paging/policy/trial.h"
#include "liballoc/paging/policy/whole_runs.h"
#include "liballoc/paging/transfers/transfers.h"

namespace terrace::liballoc {

class Faults {
 public:
  struct Parts {
    RunTable& runs;
    BlockTable& blocks;
    Staging& staging;
    MemoryBudget& budget;
    Frames& frames;
    OperationTable& operations;
    Placement& placement;
    Transfers& transfers;
    WaitingLine& line;
    Accounts& accounts;
    Policy& policy;
    FrameReturns& frame_returns;
    const Standing& standing;
  };
  constexpr explicit Faults(const Parts& parts) : parts_(parts) {}
  void use(Mover* mover) { mover_ = mover; }
  // It outlives the faults.
  void tell(TouchListener& listener) { listener_ = &listener; }

  // Whether there is a transfer free for one more fault. One that would find none is left with the kernel,
  // which keeps the order.
  bool can_take() const { return parts_.operations.pieces() < OperationTable::most_pieces; }
  void handle(const Fault& fault);
  // First come, first served. A run waits at the head of the line until there is memory for it; one that the
  // kernel refuses goes to the end. True: reads were begun, and may be over.
  bool serve_line();

 private:
  void bring_zeroes(std::uint32_t n, std::uint32_t page);
  void fault_in_place(std::uint32_t n, std::uint32_t page);
  bool follows(std::uint32_t n) const;
  bool comes_whole_again(std::uint32_t n) const;
  bool stands_for_compressed(std::uint32_t n) const;
  bool is_cheap(std::uint32_t n) const;
  bool is_used_whole(std::uint32_t n, std::uint32_t page) const;
  bool has_room_for_pieces() const;
  bool is_tried(std::uint32_t n);
  bool is_tried_though_cheap(std::uint32_t n);
  void note_lone_touch(std::uint32_t n, bool is_expected);
  PageRange reach_of(std::uint32_t n, std::uint32_t page);
  void note_touch_of_trial(std::uint32_t n);
  void look_at_trial();
  std::uint32_t end_trial();
  void bring_fresh(std::uint32_t n, std::uint32_t page);
  void back_ahead(std::uint32_t n);
  void bring_from_frame(std::uint32_t n, std::uint32_t page, bool is_strided);
  void bring_all_from_frame(std::uint32_t n);
  void bring_from_tier(std::uint32_t n, std::uint32_t page, bool is_strided);
  void hand_over(std::uint32_t n, std::uint32_t page);
  void bring_strides(std::uint32_t n, const Strides::Ahead& ahead);
  bool bring_stride(std::uint32_t n, std::uint32_t page);
  bool serve_stuck(std::uint32_t n);

  Parts parts_;
  Mover* mover_ = nullptr;
  TouchListener* listener_ = nullptr;
  Reach reach_;
  RecentArrivals arrivals_;
  Strides strides_;
  Trial trial_;
  WholeRuns whole_runs_;
  UseOfRuns small_blocks_;  // of all small blocks together: each has too few runs to tell
};

}  // namespace terrace::liballoc
