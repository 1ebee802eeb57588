// The pager: decides which runs are in DRAM and carries them to the tier and back.
//
// It is a state machine (runs/run.h) that belongs to who holds the gate (gate.h), the agent as a rule:
// faults, finished transfers and the policy all arrive there, so that a run has one owner at every
// transition. What blocks come and go it reads from a queue (block_queue.h), always before it serves a fault.
//
// Its parts, from the lowest to the highest; each knows only parts above it in this list, by reference:
//
//   RunTable, BlockTable   what is known of runs and blocks: states, lists, where pages lie   runs/
//   MemoryBudget, Frames   how much memory there may be, and where more of it comes from      memory/
//   ShelfMemory            memory for what is kept compressed, and back                       memory/
//   Extents, Operations    where on the tier runs lie; what is under way                      transfers/
//   BudgetDivision         what of a budget the codec and compressed runs take                memory/
//   Policy                 which run next, by a schedule or by what was learned     policy/, planned/
//   Placement              between address and frame                                          memory/
//   Transfers              between frame and tier                                             transfers/
//   Faults, BlockFollower, PinTable, Adoption, Forking, KernelTurn   what sets things in motion
//   PeriodLearner          what the program repeats, and when it touches what                 learning/
//
// Pager itself is the order of steps. As long as memory is plenty it sleeps (dormant): the kernel backs the
// heap by itself, nothing is watched, no run has a state. watch() and take_over() begin with what is there
// then.
//
// What is counted is memory: pages in place and in frames, at most the budget. A schedule of the program's
// step, where there is one, says what leaves and returns when (planned/planned_policy.h). Else, and for what
// it does not name, the reactive policy:
//  * keep what is used, write out what came longest ago; what comes round in a cycle queues apart
//    (policy/insertion.h);
//  * scattered touches move pages, streams move runs (policy/reach.h); a scattered run is held a while in its
//    frame, and what is touched there goes back, so that only what is cold is written;
//  * written runs stay cached in their frame until memory is short: an eviction that a touch takes back is
//    free;
//  * what was read is written again only where it was changed (runs/page_table.h);
//  * expect evicted runs back in the order of last time (policy/read_ahead.h), and when the job's live data
//    shrinks (backward passes) the most recently evicted first, block by block in address order;
//  * once a job has outgrown its budget, begin to write as soon as its data grows again, so that the
//    device is busy throughout the forward pass instead of when it is too late (policy/reactive_policy.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "liballoc/agent/client/client.h"
#include "liballoc/base/options.h"
#include "liballoc/paging/accounts.h"
#include "liballoc/paging/adoption.h"
#include "liballoc/paging/block_follower.h"
#include "liballoc/paging/faults.h"
#include "liballoc/paging/forking.h"
#include "liballoc/paging/kernel_turn.h"
#include "liballoc/paging/learning/learner.h"
#include "liballoc/paging/memory/budget_division.h"
#include "liballoc/paging/memory/frames.h"
#include "liballoc/paging/memory/placement.h"
#include "liballoc/paging/memory/shelf_memory.h"
#include "liballoc/paging/mover/mover.h"
#include "liballoc/paging/pin_table.h"
#include "liballoc/paging/planned/planned_policy.h"
#include "liballoc/paging/runs/block_table.h"
#include "liballoc/paging/runs/run_table.h"
#include "liballoc/paging/standing.h"
#include "liballoc/paging/step_clock.h"
#include "liballoc/paging/thrashing.h"
#include "liballoc/paging/transfers/transfers.h"
#include "liballoc/terrace.h"
#include "tiers/tier.h"

namespace terrace::liballoc {

class Pager {
 public:
  using Mode = PagerMode;

  // ---- set-up; before any other thread knows of the heap, or with the gate -------------------------------
  int initialise(std::byte* base, std::size_t bytes, std::uint32_t most_blocks, BlockQueue* queue,
                 FreeRuns* free_runs);
  // How much of the budget may hold compressed runs, where the tier has a place for them. Before activate().
  void keep_compressed(const CompressedSize& size) { division_.keep_compressed(size); }
  // Makes everything ready with an open mover; then the pager is dormant. The tier, the client and the
  // workers outlive it.
  int activate(Mover* mover, tiers::Tier* tier, Client* client, std::uint64_t budget_bytes,
               Compression compression = Compression::off, Workers* workers = nullptr);
  // From here on touches of what is not there are ours to serve, as soon as we have taken over. All live
  // blocks were learned. 0 or the errno of userfaultfd, and then the pager is plain.
  int watch();
  // Adopts what is there, up to the top: known only now, or a page that was touched just before is lost.
  void take_over();
  // May begin or stop to compress, too.
  void set_budget(std::uint64_t bytes) { division_.divide(bytes); }
  // mlockall: what is in DRAM stays, what is not comes when it is touched.
  void stop_evicting();
  void resume_evicting();
  // Takes our memory out of what the kernel locked: pages locked in place can be neither moved nor dropped.
  void unlock_memory();

  // ---- blocks --------------------------------------------------------------------------------------------
  // Reads what the program's threads noted. Before anything is decided that depends on which blocks there
  // are.
  void follow_blocks() { blocks_follower_.follow(); }
  BlockFollower& blocks() { return blocks_follower_; }
  // How far up there may be memory.
  void know_top(std::uint32_t granule) {
    runs_.know_top((granule + granules_per_run - 1) / granules_per_run);
  }
  PinTable& pins() { return pins_; }
  // The kernel has dropped the pages of [begin, end) (MADV_DONTNEED), which are the program's to drop:
  // wherever else they are they are forgotten, and read as zeroes from here on.
  void forget(const std::byte* begin, const std::byte* end);
  // Gives recycled memory back to the kernel, oldest first, until at most `keep` runs are left. Runs given
  // back.
  std::uint32_t trim(std::uint32_t keep) { return frames_.trim(keep); }
  void advise(std::uint32_t first_run, std::uint32_t last_run, terrace_advice advice);

  // The schedules that are held, and the one that is followed.
  PlanFollower& plan() { return policy_.plan(); }

  // ---- the agent's thread --------------------------------------------------------------------------------
  // Whether there is a transfer free for one more fault.
  bool can_take_fault() const { return faults_.can_take(); }
  void handle_fault(const Fault& fault);
  void handle_completions() { transfers_.handle_completions(true); }
  bool balance();  // one round of policy; true: call again
  // Says so, once, when the job does nothing but wait for what was taken from it a moment ago.
  void look_for_thrashing(std::uint64_t now_ns);
  // There is work that no fault will bring to the agent's notice.
  bool wants_agent() const;
  // What the program repeats, for whoever plans.
  PeriodLearner& learner() { return learner_; }
  const PeriodLearner& learner() const { return learner_; }

  // Instead of us.
  KernelTurn& kernel_turn() { return kernel_turn_; }

  // ---- fork ----------------------------------------------------------------------------------------------
  Forking& forking() { return forking_; }
  int start_restoring(Mover* mover);

  // ---- accounts ------------------------------------------------------------------------------------------
  const Standing& standing() const { return standing_; }
  bool is_paging() const { return standing_.is_paging(); }
  // Single pages are on their way; a thread waits for them, or soon will.
  bool awaits_piece() const { return operations_.pieces() > 0; }
  // While it is dormant: what the heap holds at most, for the statistics.
  void estimate_resident(std::uint64_t bytes);
  void fill(terrace_statistics* out) const;
  const Accounts& accounts() const { return accounts_; }
  const MemoryBudget& budget() const { return budget_; }
  // More than its budget, as after that was lowered.
  bool holds_too_much() const { return is_paging() && budget_.is_over(); }
  Extents& extents() { return extents_; }
  const Extents& extents() const { return extents_; }
  // Nothing is under way and nothing is to be done.
  bool is_quiet() const;
  const RunTable& runs() const { return runs_; }
  const Run& run(std::uint32_t n) const { return runs_[n]; }
  // Counts the run table anew and compares with the counts that every transition keeps; ends the process
  // where they differ. The agent calls it in builds with TERRACE_CHECK_INVARIANTS.
  void check_invariants() const;

 private:
  void use(Mover* mover);
  bool evict_one();
  bool release_held(bool at_once);
  std::uint32_t events_to_wait_for() const;
  bool return_some();
  bool serve_from_memory();
  bool relieve();
  void send_out(std::uint32_t n, bool page_out);

  Standing standing_;
  Staging staging_;
  RunTable runs_{staging_};
  BlockTable blocks_;
  MemoryBudget budget_;
  RunCodec codec_;
  OperationTable operations_;
  Accounts accounts_{runs_, blocks_};
  Extents extents_{runs_, budget_, standing_, accounts_};
  BudgetDivision division_{{runs_, budget_, extents_, codec_}};
  ShelfMemory shelf_memory_{staging_, budget_};
  Frames frames_{runs_, staging_, budget_, extents_, accounts_, standing_};
  WaitingLine line_{runs_};
  PlannedPolicy policy_{
      {runs_, blocks_, staging_, budget_, extents_, operations_, line_, standing_, accounts_}};
  FrameReturns frame_returns_;
  Placement placement_{{runs_, staging_, budget_, frames_, extents_, operations_, line_, accounts_, policy_}};
  Transfers transfers_{{runs_, blocks_, staging_, budget_, frames_, extents_, operations_, placement_, line_,
                        codec_, accounts_, policy_, frame_returns_, standing_}};
  Faults faults_{{runs_, blocks_, staging_, budget_, frames_, operations_, placement_, transfers_, line_,
                  accounts_, policy_, frame_returns_, standing_}};
  PinTable pins_{runs_, blocks_, budget_, standing_};
  StepClock clock_{accounts_};
  BlockFollower blocks_follower_{{runs_, blocks_, frames_, extents_, operations_, placement_, pins_,
                                  accounts_, policy_, clock_, standing_}};
  PeriodLearner learner_{
      {runs_, blocks_, budget_, operations_, placement_, transfers_, accounts_, standing_}};
  Adoption adoption_{runs_, budget_};
  KernelTurn kernel_turn_{{standing_, budget_, placement_, accounts_}};
  Forking forking_{{runs_, staging_, budget_, frames_, extents_, operations_, placement_, transfers_, line_,
                    accounts_, policy_, standing_}};

  BlockQueue* queue_ = nullptr;
  Mover* mover_ = nullptr;
  std::uint64_t estimate_bytes_ = 0;
  std::uint32_t most_blocks_ = 0;
  bool over_budget_told_ = false;
  Thrashing thrashing_;
};

}  // namespace terrace::liballoc
