// Learns, while the job runs, what a period's objects are and when they are touched, and writes it down for
// whoever plans (period_sink.h).
//
//     event clock ──event and its place──► births, deaths, computing times ┐
//     faults, placement ──touched, left, back──► uses                      ├─► PeriodTable ──image──► sink
//     probes: a run leaves for its frame, the next touch shows  ───────────┘     one for each phase
//
// Sentinel (Ren et al., HPCA 2021, section 4) counts accesses in a profiling step whose every page faults,
// with a patched kernel; Capuchin (ASPLOS 2020, section 4.2) is told of accesses by the framework. Here a run
// of an object is moved to its frame, which copies nothing and writes nothing, and the touch that asks for it
// is a use; then it is moved again after the next event, and so through the period. One touch costs the
// program one fault. Probing stops when it has taken a hundredth of the last period, and goes on there in the
// next one, so that after some periods each object was followed from its birth to its death.
//
// Nothing is learned while nobody plans, and nothing of a program without a period. Memory is mapped when the
// first phase is claimed: 14 MiB of addresses for each of four phases and 64 bytes for each block that may
// live, of which what is used is touched. Belongs to who holds the gate.
#pragma once

#include <cstddef>
#include <cstdint>

#include "liballoc/paging/accounts.h"
#include "liballoc/paging/block_queue.h"
#include "liballoc/paging/learning/learned_phase.h"
#include "liballoc/paging/learning/live_blocks.h"
#include "liballoc/paging/learning/period_offers.h"
#include "liballoc/paging/learning/period_sink.h"
#include "liballoc/paging/learning/probe_queue.h"
#include "liballoc/paging/learning/touch_listener.h"
#include "liballoc/paging/memory/memory_budget.h"
#include "liballoc/paging/memory/placement.h"
#include "liballoc/paging/planned/next_uses.h"
#include "liballoc/paging/runs/block_table.h"
#include "liballoc/paging/runs/run_table.h"
#include "liballoc/paging/standing.h"
#include "liballoc/paging/step_clock.h"
#include "liballoc/paging/transfers/transfers.h"

namespace terrace::liballoc {

class PeriodLearner final : public StepListener, public TouchListener, public NextUses {
 public:
  struct Parts {
    RunTable& runs;
    const BlockTable& blocks;
    const MemoryBudget& budget;
    const OperationTable& operations;
    Placement& placement;
    const Transfers& transfers;
    Accounts& accounts;
    const Standing& standing;
  };
  constexpr explicit PeriodLearner(const Parts& parts)
      : parts_(parts), offers_({parts.runs, parts.blocks, parts.budget, parts.transfers, live_}) {}
  ~PeriodLearner() = default;
  // Ids of blocks are smaller than `most_blocks`.
  void use(BlockQueue* queue, std::uint32_t most_blocks) {
    queue_ = queue;
    most_blocks_ = most_blocks;
  }

  // How many hundredths of a period probing may take: in its first periods, and later.
  void let_probe(std::uint32_t first, std::uint32_t later) {
    first_hundredths_ = first;
    hundredths_ = later;
  }

  // ---- what happens --------------------------------------------------------------------------------------
  void on_step_event(const BlockEvent& event, std::uint32_t granules, const StepPlace& place) override;
  void on_left(std::uint32_t n) override;
  void on_touched(std::uint32_t n) override;
  void on_returned(std::uint32_t n) override;

  // ---- what is known
  std::uint32_t events_to_use(std::uint32_t block) override;

  // ---- the agent's rounds; all notes have been read -------------------------------------------------------
  // Takes out some of what is to be probed now. True: there is more.
  bool probe_some();
  // How many events the program has to go on until there is something to probe; 0: nothing is waited for.
  std::uint32_t events_to_probe() const;
  // Begins and ends to learn, as the sink wants it, and gives it what it does not know yet (period_offers.h).
  void offer(PeriodSink& sink, std::uint64_t now_ns);

  // The table of the claimed phase; nullptr: none is claimed, or nothing is learned of it.
  const PeriodTable* table() const { return phase_ != nullptr ? &phase_->table : nullptr; }

 private:
  // learner.cpp
  bool have_memory();
  LearnedPhase* phase_of(const StepPlace& place);
  void forget(std::uint32_t slot);
  void enter(const StepPlace& place);
  void leave();
  void want(bool wanted);
  bool advance(const StepPlace& place);
  void note_time(const BlockEvent& event, std::uint32_t ordinal);
  void begin_period(const BlockEvent& event);
  void find_persistent();
  void on_birth(const BlockEvent& event, const StepPlace& place);
  void on_growth(const BlockEvent& event, std::uint32_t granules, const StepPlace& place);
  void on_death(const BlockEvent& event, const StepPlace& place);
  std::uint32_t object_of(std::uint32_t block);
  // Whether its next touch will show, and since when is known.
  bool is_watched(const LiveBlock& b) const { return b.away != 0 && b.away_claim == claim_; }
  void note_idle(const LiveBlock& b, std::uint32_t object);
  PeriodPosition position() const {
    return PeriodPosition::of_number(phase_->position, phase_->table.length());
  }
  // learner_probes.cpp
  void choose_rounds();
  std::uint64_t time_to_probe() const;
  bool is_to_probe(std::uint32_t object) const;
  void begin_chain(std::uint32_t block, std::uint32_t object, std::uint64_t earliest);
  void go_on_with_chain(std::uint32_t block, std::uint32_t object);
  void note_watched(std::uint32_t block, std::uint32_t object);
  void end_chain(std::uint32_t block, std::uint32_t object);
  void end_turns();
  void begin_turns();
  void end_all_turns();
  void cut_all();
  void cut(std::uint32_t block);
  void probe(std::uint32_t block);
  std::uint32_t run_to_probe(std::uint32_t block, std::uint32_t object) const;
  void count_fixed();

  Parts parts_;
  BlockQueue* queue_ = nullptr;
  std::uint32_t most_blocks_ = 0;
  std::uint32_t first_hundredths_ = 5, hundredths_ = 1;
  LearnedPhase phases_[most_learned_phases];
  LearnedPhase* phase_ = nullptr;  // the claimed one
  std::uint32_t slot_ = 0;         // its number
  LiveBlocks live_;
  ProbeQueue probes_;
  bool is_wanted_ = false;
  bool has_memory_ = false;
  bool is_refused_memory_ = false;
  std::uint32_t claim_ = 0;  // number of the claim; each block's birth is of one
  // The last event that was claimed, and how long threads had waited by then.
  std::uint64_t event_ns_ = 0, event_waited_ns_ = 0;
  std::uint64_t period_ns_ = 0, period_waited_ns_ = 0;  // the same of the period's beginning; 0: not seen
  std::uint64_t fixed_at_ = 0;                          // position at which memory is counted next
  std::uint64_t touch_ns_ = 0;                          // when the probed run that returns now was asked for
  std::uint32_t next_turn_ = 0;                         // of what persists, whose probing is begun next
  PeriodOffers offers_;
};

}  // namespace terrace::liballoc
