// Which blocks there are, and what the agent is told of them.
//
// The heap's lock is here: it covers where blocks lie. malloc and free take it, for well under a microsecond,
// and while memory is short they leave a note for the agent (paging/block_queue.h); nobody works or waits
// under it.
//
// Recording begins when the pager takes over: from then on the agent is told of every block that comes, goes
// or grows. While memory is plenty the agent only looks at how much was handed out, and asks to be woken when
// that passes a mark.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "liballoc/base/lock.h"
#include "liballoc/heap/space/address_space.h"
#include "liballoc/paging/block_queue.h"

namespace terrace::liballoc {

class Pager;
class Waker;
struct KnownBlock;

// Of a block, beside the hints of terrace.h. The block was lent (pins.h).
inline constexpr unsigned lent_hint = 1U << 7;
// The pager holds pins or locks of the block though it is not told of blocks.
inline constexpr unsigned held_hint = 1U << 6;

class Blocks {
 public:
  // The runs of a range inside one block. block 0: it is not inside one.
  struct Runs {
    std::uint32_t block = 0;
    std::uint32_t first = 0;
    std::uint32_t last = 0;
  };

  constexpr explicit Blocks(Waker& waker) : waker_(waker) {}
  // `base` is run-aligned reserved memory. 0 or errno.
  int initialise(std::byte* base, std::size_t bytes);

  constexpr Lock& lock() { return lock_; }
  constexpr AddressSpace& space() { return space_; }
  BlockQueue& queue() { return queue_; }

  // ---- under the lock ------------------------------------------------------------------------------------
  // Takes the lock, with room for a note in the queue, so that what is begun under the lock can be told.
  void lock_with_room();
  // Tells the agent, if it is to be told of this block.
  void note(BlockChange change, std::uint32_t id, std::uint32_t first, std::uint32_t granules, bool zeroed);
  // Tells of a block's end, and frees it. `virgin`: its memory went back to the kernel.
  void free(std::uint32_t id, bool virgin);
  // What the agent is told of a block.
  KnownBlock known(std::uint32_t id) const;
  // Whether so much was noted since the last time that the agent should look.
  bool is_worth_a_look();
  // Whether what was handed out passes the agent's mark; once for each mark.
  bool passes_mark();

  // ---- any thread ----------------------------------------------------------------------------------------
  // The program's word where it is: a number for its name, 0 where a step begins. 0, also where the agent is
  // told of nothing; EAGAIN: the queue is full, and the word is lost.
  int mark(std::uint64_t name);
  bool is_recording() const { return recording_; }
  // The runs of [address, address + bytes), which must lie inside one live block.
  Runs runs_of(const void* address, std::size_t bytes);
  // What may have memory behind it.
  std::uint32_t spread_granules() const { return space_.live_granules() + space_.recycled_granules(); }
  std::uint64_t spread_bytes() const { return std::uint64_t{spread_granules()} * granule_bytes; }

  // ---- the agent, with the gate --------------------------------------------------------------------------
  // From now on the agent is told of blocks, and the pager knows those there are.
  void begin_recording(Pager& pager);
  void end_recording() { recording_ = false; }
  // Tells the pager how far up blocks have ever been.
  void tell_top(Pager& pager);
  // How much may be handed out before the agent is to be woken.
  void wake_at(std::uint64_t bytes);
  // Waits for the lock: not where a signal may have interrupted its holder.
  void check_invariants();

 private:
  std::uint32_t run_of(const std::byte* address) const {
    return static_cast<std::uint32_t>(static_cast<std::size_t>(address - base_) / run_bytes);
  }

  Waker& waker_;
  std::byte* base_ = nullptr;
  Lock lock_;
  // Under the lock.
  AddressSpace space_;
  BlockQueue queue_;                  // its writing end
  bool recording_ = false;            // read without the lock where an old value does no harm
  std::uint32_t recorded_below_ = 0;  // blocks that begin under this granule are known to the agent
  // Any thread.
  std::atomic<std::uint32_t> wake_at_{~0U};  // granules
};

}  // namespace terrace::liballoc
