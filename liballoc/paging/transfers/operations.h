// What goes to the tier or comes from it at present. An operation outlives the run's interest in it: a run
// that is freed meanwhile leaves the operation with run == none, and its end only tidies up.
//
//   write         summed ► (compressed) ► on its way to the tier ► over
//   fill, read                            on its way from it ► summed or decompressed ► over
//
// Bounded: so many whole runs, each with a job for what is computed (job.h), and so many pieces, each with a
// buffer. Pure but for these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "liballoc/paging/policy/reach.h"
#include "liballoc/paging/runs/page_set.h"
#include "liballoc/paging/runs/run.h"
#include "liballoc/paging/transfers/job.h"
#include "liballoc/paging/transfers/read_depth.h"
#include "liballoc/paging/transfers/run_codec.h"

namespace terrace::liballoc {

struct TierOperation {
  enum class Kind : std::uint8_t { write, fill, read, piece };
  std::uint32_t run = none;
  std::uint32_t frame = none;
  std::uint64_t slot_offset = 0;
  std::uint64_t sum = 0;
  std::uint32_t generation = 0;
  std::uint32_t slot_epoch = 0;
  std::uint32_t slot_bytes = run_bytes;  // of the extent: fewer when compressed
  std::uint32_t bytes = 0;               // submitted
  std::uint32_t cursor = 0;              // pages before it are submitted
  std::uint32_t parts = 0;               // transfers in flight
  std::uint32_t among = 0;               // read: in the device when it began, with itself
  int error = 0;
  std::uint64_t submitted_ns = 0;
  std::uint64_t in_submit_ns = 0;  // where the tier copies what lies in memory
  std::uint64_t wait_since_ns = 0;
  unsigned buffer = RunCodec::no_buffer;
  std::byte* data = nullptr;  // where page 0 of the run would be
  PageSet pages;
  PageSet dirty;   // write: those that must be
  PageSet zeroes;  // write: those that need no copy
  Kind kind = Kind::read;
  bool busy = false;
  bool is_computed = false;    // its job is a worker's at present
  bool owns_frame = false;     // the run has let go of it
  bool owns_slot = false;      // a new extent, the run's when the write has ended
  bool releases_slot = false;  // and nobody's if the run has gone
  bool shares_slot = false;    // the extent of a run that has gone; the last of its transfers gives it back
  bool retried = false;
  bool starved = false;      // waits for the kernel's memory
  bool lacks_room = false;   // a piece that is here and checked, and waits for memory in the budget
  bool fills_up = false;     // read: what lies nowhere comes with it, as zeroes, so that the run is whole
  bool has_arrived = false;  // the device has done its part, and the content is to be checked

  bool is_write() const { return kind == Kind::write; }
  bool is_piece() const { return kind == Kind::piece; }
  bool is_compressed() const { return slot_bytes != run_bytes; }
};

class OperationTable {
 public:
  static constexpr unsigned most_pieces = 32;
  static constexpr unsigned most = most_pieces + 32;

  // 0 or ENOMEM.
  int initialise();
  // In a forked child: there are none.
  void forget_all();

  // nullptr: all of the kind are busy.
  TierOperation* begin(TierOperation::Kind kind, std::uint32_t n);
  void end(TierOperation& op);
  std::uint32_t writes() const { return writes_; }  // with what is read to be written again
  std::uint32_t reads() const { return reads_; }    // of whole runs
  // Those with which the device is not done yet; it is with the others, whose content is to be checked.
  std::uint32_t reads_in_device() const { return reads_ - arrived_; }
  // The tier has done its part of a read.
  void note_arrived(TierOperation& read);
  // And that kept the drive for so long.
  void note_device_time(const TierOperation& read, std::uint64_t ns) {
    read_depth_.note(ns, read.bytes, read.among);
  }
  // How many the device should have at a time.
  std::uint32_t read_depth() const { return read_depth_.reads(); }
  // It is read once more.
  void begin_anew(TierOperation& op);
  std::uint32_t pieces() const { return pieces_; }
  std::span<TierOperation> all() { return operations_; }
  std::span<const TierOperation> all() const { return operations_; }
  std::uint64_t token_of(const TierOperation& op) const {
    return static_cast<std::uint64_t>(&op - operations_);
  }
  TierOperation& of_token(std::uint64_t token) { return operations_[token % most]; }
  std::byte* buffer_of(const TierOperation& piece) const;
  // Of one for a whole run.
  Job& job_of(const TierOperation& op) { return jobs_[token_of(op) - most_pieces]; }
  // Writes of whose runs it is not known yet whether they are to be compressed.
  unsigned undecided_writes();

  // What is under way for the whole of run n.
  const TierOperation* of_run(std::uint32_t n) const;
  TierOperation* of_run(std::uint32_t n);
  // Whether the page of run n is being read by a piece.
  bool brings(const Run& r, std::uint32_t n, std::uint32_t page) const;
  // Those of `pages` that no piece brings.
  PageSet not_brought(std::uint32_t n, PageSet pages) const;
  // Pages whose content is nobody's any more.
  void forget(std::uint32_t n, const PageSet& pages);
  // The run is gone, or its bytes are: whatever is on its way for it ends for nobody. `releases`: its extents
  // are free when they have ended.
  void let_go(Run& r, std::uint32_t n, bool releases);
  // Whether it is the last transfer of an extent that nobody has any more.
  bool ends_extent(const TierOperation& op) const;

 private:
  std::uint32_t& count_of(TierOperation::Kind kind);
  void note_not_arrived(TierOperation& op);

  TierOperation operations_[most];  // the first ones are for pieces
  std::byte* buffers_ = nullptr;
  Job* jobs_ = nullptr;
  ReadDepth read_depth_;
  std::uint32_t writes_ = 0;
  std::uint32_t reads_ = 0;
  std::uint32_t arrived_ = 0;
  std::uint32_t pieces_ = 0;
};

}  // namespace terrace::liballoc
