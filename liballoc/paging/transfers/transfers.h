// Transfers between memory and the tier: whole runs through their staging frame, compressed or not, and
// single pages through small buffers of their own.
//
//   write   the dirty pages of a frame, into the run's extent where it has one that no forked child reads,
//           else into a new one, which gets all pages; their sums say which are dirty
//   fill    before that: what the old extent alone has, into the frame
//   read    what a run has on the tier only, into a frame
//   piece   a few pages, into a buffer, and from there under their address
//
// An operation is cut into as many transfers as it has stretches of pages; its end is the end of the last.
// What is computed of whole runs, before a write or after a read, workers do where there are some
// (workers.h); the frame is the operation's meanwhile, as it is while the device has it. Belongs to who holds
// the gate.
#pragma once

#include <cstdint>

#include "liballoc/paging/accounts.h"
#include "liballoc/paging/memory/frames.h"
#include "liballoc/paging/memory/placement.h"
#include "liballoc/paging/mover/mover.h"
#include "liballoc/paging/policy/frame_returns.h"
#include "liballoc/paging/policy/policy.h"
#include "liballoc/paging/runs/block_table.h"
#include "liballoc/paging/runs/run_table.h"
#include "liballoc/paging/transfers/device_times.h"
#include "liballoc/paging/transfers/extents.h"
#include "liballoc/paging/transfers/operations.h"
#include "liballoc/paging/transfers/run_codec.h"
#include "liballoc/paging/transfers/workers.h"

namespace terrace::liballoc {

class Transfers {
 public:
  // So many at a time at most. What is read ahead is as many as the device needs (read_depth.h).
  static constexpr std::uint32_t writes_in_flight = 6;
  static constexpr std::uint32_t reads_in_flight = 8;

  struct Parts {
    RunTable& runs;
    const BlockTable& blocks;
    Staging& staging;
    MemoryBudget& budget;
    Frames& frames;
    Extents& extents;
    OperationTable& operations;
    Placement& placement;
    WaitingLine& line;
    RunCodec& codec;
    Accounts& accounts;
    Policy& policy;
    FrameReturns& frame_returns;
    const Standing& standing;
  };
  constexpr explicit Transfers(const Parts& parts) : parts_(parts) {}
  void use(Mover* mover) { mover_ = mover; }
  // nullptr: the caller computes. They outlive it.
  void use(Workers* workers) { workers_ = workers; }

  // Begins to write the run that is staged first. False: none, or not now.
  bool start_write();
  // Begins to read all that run n has on the tier only. `demanded`: a thread waits for it. False when no
  // frame or operation is free.
  bool start_read(std::uint32_t n, bool demanded);
  // Begins to read the first stretch of `wanted` that is on the tier only and on no way yet.
  void start_piece(std::uint32_t n, PageRange wanted, bool demanded);
  // Whether a read of run n, which is stored, would bring what lies nowhere as well, as zeroes.
  bool comes_whole(std::uint32_t n) const;
  // One more of what the policy expects. False: none, or not now.
  bool read_ahead_one();
  // What is kept compressed in DRAM and is touched next.
  bool fetch_kept_ahead();
  // Ends what has come to its end, of the tier's work and of the workers'. `reads_on`: what the policy
  // expects next is begun first.
  void handle_completions(bool reads_on);
  bool are_none() const;
  const DeviceTimes& times() const { return times_; }
  void start_anew();

 private:
  bool write_into(TierOperation* op);
  bool refuse(TierOperation* op);
  bool reserve_for(TierOperation* op);
  bool start_fill(TierOperation* op);
  void advance(TierOperation* op);
  bool read_again(TierOperation* op);
  bool read_later(TierOperation* op);
  void go_on_with(bool starved);
  void finish(TierOperation* op);
  void check_arrived();
  // transfers_computing.cpp
  bool compute(TierOperation* op, Job::Kind kind);
  bool computed(TierOperation* op);
  void take_results();
  bool may_sum_one_more();
  bool sum(TierOperation* op, const PageSet& pages);
  bool summed(TierOperation* op);
  PageSet needless(std::uint32_t n, const PageSet& zeroes) const;
  bool may_be_compressed(const TierOperation& op);
  bool is_left_to_be_tried(std::uint32_t n) const;
  bool is_to_come_in_pages(const TierOperation& op) const;
  bool encode(TierOperation* op);
  bool encoded(TierOperation* op);
  bool call_off(TierOperation* op);
  bool end_unwritten(TierOperation* op);
  void check(TierOperation* op);
  void checked(TierOperation* op);
  void end_read(TierOperation* op, bool intact);

  void finish_write(TierOperation* op);
  void write_failed(TierOperation* op);
  void nvm_failed(TierOperation* op);
  void finish_fill(TierOperation* op, bool intact);
  bool fill_frame(const TierOperation& op);
  void finish_read(TierOperation* op, bool intact);
  void fill_up(std::uint32_t n);
  void finish_piece(TierOperation* op, bool intact);
  bool put_later(TierOperation* op, PageRange range);
  void put_what_lacked_room();
  void tidy(TierOperation* op);

  Parts parts_;
  DeviceTimes times_{{parts_.runs, parts_.operations, parts_.line, parts_.codec, parts_.extents}};
  Mover* mover_ = nullptr;
  Workers* workers_ = nullptr;
  std::uint32_t generation_ = 0;
  std::uint64_t next_write_ns_ = 0;  // not before: one that a worker had summed could not begin
  bool some_are_stalled_ = false;    // operations of which the tier has not taken all
  bool some_are_starved_ = false;    // reads for which the kernel had no memory
  bool some_lack_room_ = false;      // pieces for which the budget had none
};

}  // namespace terrace::liballoc
