// Takes blocks through host memory in their order: those ahead are read and those behind written while the
// present one is worked on.
//
//   slots      │ k+3 read │ k+2 read │ k+1 there │  k: verify, work, sum │ k-1 written │
//
// Host memory is bounded by the slots. A block is verified as a whole before any of it is worked on. What the
// drive refuses to take stays in DRAM, from then on. Nothing is under way when run() returns.
//
// One thread at a time, but for what says otherwise. Errors are errno values.
#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "liballoc/gpu/optimizer/block.h"
#include "liballoc/gpu/optimizer/block_memory.h"
#include "liballoc/gpu/optimizer/drive.h"
#include "liballoc/gpu/optimizer/workers.h"
#include "tiers/mapping.h"

namespace terrace::liballoc::optimizer {

class Stream {
 public:
  static constexpr std::uint64_t slot_bytes = std::uint64_t{4} << 20;  // the largest block's
  static constexpr std::uint64_t least_bytes = 4 * slot_bytes, usual_bytes = 16 * slot_bytes;

  // What is done with a block, in this order, on the caller's thread but for slice().
  struct Work {
    virtual ~Work() = default;
    // Before the first access to what belongs to visit i. Not 0 ends the run with that.
    virtual int begin(std::size_t) { return 0; }
    // One slice of visit i's block, by any thread. Must not throw.
    virtual void slice(std::size_t i, std::size_t slice, std::byte* content) = 0;
    virtual void end(std::size_t) {}
  };

  // `drive` may be null: then all blocks are in DRAM.
  Stream(Drive* drive, BlockMemory* memory, Workers* workers, std::uint64_t staging_bytes);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Visits blocks, each once at most. `writes`: they are changed. `together`: how many that are in DRAM may
  // be worked on between a begin() and an end(). 0, or why it ended, with *failed the visit that was not
  // worked on and *slice the damaged one for EBADMSG; visits before it were. ENOMEM after all of them: for
  // states that the drive refused there was no room in DRAM either. What it has of them is older, and is
  // refused when read.
  int run(std::span<Block* const> blocks, bool writes, std::size_t together, Work& work, std::size_t* failed,
          std::size_t* slice);

  // How much host memory the next run may take for slots: one, whatever is said. More than that is given back
  // now.
  void set_staging(std::uint64_t bytes);
  void give_back_staging();

  const std::string& warning() const { return warning_; }
  // Any thread: host memory taken for slots, and how much of it no run uses.
  std::uint64_t staging_bytes() const { return staging_bytes_; }
  std::uint64_t spare_bytes() const { return is_running_ ? 0 : staging_bytes(); }
  std::uint64_t checksum_failures() const { return checksum_failures_; }

 private:
  enum class State : std::uint8_t { free, reading, there, writing };
  struct Slot {
    State state = State::free;
    int error = 0;
    Block* block = nullptr;
  };
  struct Run {
    std::span<Block* const> blocks;
    bool writes;
    std::size_t together;
    Work& work;
    std::size_t next_read = 0;
  };

  int visit_all(Run& run, std::size_t* failed, std::size_t* slice);
  std::size_t most_slots() const;
  int take_slots();
  std::byte* memory_of(const Slot& slot) const {
    return staging_.data() + static_cast<std::size_t>(&slot - slots_.data()) * slot_bytes;
  }
  Slot* free_slot();
  Slot* slot_of(const Block* block);
  void read_ahead(Run& run, std::size_t present);
  int start_read(Slot& slot, Block* block);
  int await(Run& run, std::size_t present, Slot** out);
  int verify(Slot& slot, std::size_t* damaged);
  int visit_on_drive(Run& run, std::size_t i, std::size_t* slice);
  int visit_in_dram(Run& run, std::size_t i, std::size_t end);
  void put_away(Slot& slot, bool was_changed);
  void keep(Slot& slot, int error);
  void collect(bool wait);
  void settle(Slot& slot, int error);
  void drain();

  Drive* drive_;
  BlockMemory* memory_;
  Workers* workers_;
  std::uint64_t staging_limit_bytes_;
  tiers::Mapping staging_;
  std::atomic<std::uint64_t> staging_bytes_ = 0;  // staging_'s
  std::vector<Slot> slots_;
  std::atomic<bool> is_running_ = false;
  std::atomic<std::uint64_t> checksum_failures_ = 0;
  const Block* lost_ = nullptr;  // a changed block that could neither be written nor be kept, in this run
  std::string warning_;
};

}  // namespace terrace::liballoc::optimizer
