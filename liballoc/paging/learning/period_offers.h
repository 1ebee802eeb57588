// What the learner gives to whoever plans, and when: the claimed phase once it is known, and again when
// something that decides on its plan has changed. One image waits until it could be sent; at most one goes in
// a second.
//
// Belongs to who holds the gate; the agent's thread calls offer(). Takes memory for an image only
// (period_image.h), and keeps its descriptor until it was sent or drop() was called.
#pragma once

#include <cstdint>

#include "liballoc/paging/learning/learned_phase.h"
#include "liballoc/paging/learning/live_blocks.h"
#include "liballoc/paging/learning/period_image.h"
#include "liballoc/paging/learning/period_sink.h"
#include "liballoc/paging/memory/memory_budget.h"
#include "liballoc/paging/runs/block_table.h"
#include "liballoc/paging/runs/run_table.h"
#include "liballoc/paging/transfers/transfers.h"

namespace terrace::liballoc {

class PeriodOffers {
 public:
  struct Parts {
    const RunTable& runs;
    const BlockTable& blocks;
    const MemoryBudget& budget;
    const Transfers& transfers;
    LiveBlocks& live;
  };
  constexpr explicit PeriodOffers(const Parts& parts) : parts_(parts) {}

  // A period of the claimed phase has ended: there may be something to give.
  void note_period() { is_due_ = true; }
  // The place of the phase is another one's from here on: what waits is still sent, and counted for none.
  void forget(const LearnedPhase& phase) {
    if (waiting_of_ == &phase) waiting_of_ = nullptr;
  }
  // Nobody plans any more: what waits is not sent.
  void drop();
  // Sends what waits, else what is new of the phase, whose number is `slot`. nullptr: none is claimed.
  void offer(PeriodSink& sink, LearnedPhase* phase, std::uint32_t slot, std::uint64_t now_ns);

 private:
  bool is_news(const LearnedPhase& phase) const;
  bool write_image(LearnedPhase* phase, std::uint32_t slot, const char* policy);
  void give(PeriodSink& sink, std::uint64_t now_ns);

  Parts parts_;
  bool is_due_ = false;  // a period has ended since the last offer
  // An image that could not be sent yet.
  LearnedPeriod waiting_;
  LearnedPhase::Sent waiting_as_;
  LearnedPhase* waiting_of_ = nullptr;
  std::uint64_t next_ns_ = 0;
};

}  // namespace terrace::liballoc
