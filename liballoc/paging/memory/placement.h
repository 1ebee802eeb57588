// Placement: carries a run's pages between its address and its frame. How a run arrives and how it leaves.
//
// Each function takes one run from one state to the next and leaves lists, pages and counts agreeing with it.
// Belongs to who holds the gate.
#pragma once

#include <cstdint>

#include "liballoc/paging/accounts.h"
#include "liballoc/paging/block_queue.h"
#include "liballoc/paging/learning/touch_listener.h"
#include "liballoc/paging/memory/frames.h"
#include "liballoc/paging/mover/mover.h"
#include "liballoc/paging/policy/policy.h"
#include "liballoc/paging/runs/run_table.h"
#include "liballoc/paging/transfers/extents.h"
#include "liballoc/paging/transfers/operations.h"
#include "liballoc/paging/waiting_line.h"

namespace terrace::liballoc {

class Placement {
 public:
  struct Parts {
    RunTable& runs;
    Staging& staging;
    MemoryBudget& budget;
    Frames& frames;
    Extents& extents;
    OperationTable& operations;
    WaitingLine& line;
    Accounts& accounts;
    Policy& policy;
  };
  constexpr explicit Placement(const Parts& parts) : parts_(parts) {}
  void use(Mover* mover) { mover_ = mover; }
  void use(const BlockQueue* queue) { queue_ = queue; }
  // It outlives the placement.
  void tell(TouchListener& listener) { listener_ = &listener; }

  // ---- arriving
  // Puts memory under an empty run. False: there is none to be had now, the run waits in line.
  bool back(std::uint32_t n);
  // Puts a frame's pages under their address: the end of every way back. All at once where the run has none
  // of its pages and the frame all of them, else one by one.
  bool put_back(std::uint32_t n);
  // Some pages of a frame go back, and the frame keeps its memory until it has done its service.
  bool put_back_pages(std::uint32_t n, PageRange range);
  // Puts back a run that was written or read ahead.
  void restore(std::uint32_t n);
  // One touch of a tensor brings back all of it behind run n that is in DRAM already.
  void restore_neighbours(std::uint32_t n);
  // Pages that were never written.
  void show_zeroes(std::uint32_t n, PageRange range);
  // Who waits for the run does so no longer: accounts for it.
  void end_wait(std::uint32_t n);
  // Pages of run n, of `content` on, have come from the tier. Bytes that are in place now.
  std::size_t put_piece(std::uint32_t n, PageRange range, const std::byte* content);

  // ---- leaving
  // Takes the pages that are in place out to a frame. What is on the tier stays there. False: it stays.
  bool stage(std::uint32_t n);
  bool unstage(std::uint32_t n);
  // What was leaving is put back; what the device is still reading follows when it is done.
  void unstage_all();
  void put_all_back();
  // Touched while its write is under way, which goes on. The device reads the frame, so the run gets a copy
  // of it, unless what is written is a compressed copy already.
  void rescue(std::uint32_t n);
  // All that a staged run has in its frame is on the tier.
  void end_leaving(std::uint32_t n, bool stays_out);

  // ---- probing: a run leaves for its frame only to see when it is touched
  // Takes out a run of which all is in place. It is not written, and nobody is told that it left but the
  // listener. False: it stays.
  bool probe(std::uint32_t n);
  // Puts it back, in the order of leaving where those are that have come now.
  bool end_probe(std::uint32_t n);
  void end_probes();

  // ---- vanishing
  // Pages that are not there any more, though nobody told us. True: they are missed, as nothing explains it.
  bool miss(std::uint32_t n, const PageSet& gone);
  // The program's to drop: they read as zeroes from here on.
  void forget(std::uint32_t n, PageRange range);
  // Every later touch of the run raises SIGBUS.
  void lose(std::uint32_t n, const char* why, int error);

  // ---- stuck: the kernel refused to put a run back, whose bytes wait in its frame
  void unstick(Run& r);
  std::uint32_t stuck_runs() const { return stuck_runs_; }
  // Not again and again: part of its pages may come and go each time, which wakes who waits for them.
  bool may_retry_stuck() const;
  void start_anew() { stuck_runs_ = 0; }

 private:
  void keep_in_frame(std::uint32_t n, int error);
  bool leave(std::uint32_t n, bool is_probe);
  bool take_out(std::uint32_t n, std::uint32_t frame, PageSet* taken);
  void arrived_whole(std::uint32_t n, bool keeps_memory);
  void learn_density(std::uint32_t n);

  Parts parts_;
  Mover* mover_ = nullptr;
  const BlockQueue* queue_ = nullptr;
  TouchListener* listener_ = nullptr;
  std::uint32_t stuck_runs_ = 0;  // each is in the line
  std::uint64_t retry_put_ns_ = 0;
  bool stuck_told_ = false;
};

}  // namespace terrace::liballoc
