// Which states are in DRAM and which on the drive, where a daemon says how much DRAM there is.
//
//   numbers   0   1   2   3   4   5   6   7
//           ┌───┬───┬───┬───┬───┬───┬───┬───┐
//           │      DRAM     │     drive     │    ◄── the grant falls: 3 leaves; it rises: 4 comes back
//           └───┴───┴───┴───┴───┴───┴───┴───┘
//
// A step visits every block once, in one order, so that no block is worth more than another and those that
// were last used are the ones that are wanted last: the same part stays in DRAM, whatever is in it. The end
// of the shelves is on the drive, and a step that comes there reads it ahead as it goes.
//
// A block goes from where it lies and comes to where it lay, many at a time, with the checksums that the
// stream gives it (block.h). What the drive does not take stays in DRAM; what cannot be read stays on the
// drive, where the next step finds the same.
//
// One thread at a time, and none of a stream's runs meanwhile. Errors are errno values.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "liballoc/gpu/optimizer/block.h"
#include "liballoc/gpu/optimizer/block_memory.h"
#include "liballoc/gpu/optimizer/drive.h"
#include "liballoc/gpu/optimizer/workers.h"

namespace terrace::liballoc::optimizer {

class Placement {
 public:
  // All outlive it.
  Placement(Drive* drive, BlockMemory* memory, Workers* workers)
      : drive_(drive), memory_(memory), workers_(workers) {}
  Placement(const Placement&) = delete;
  Placement& operator=(const Placement&) = delete;

  // All blocks there are, in the order of steps. Those without a range of host memory never come to DRAM.
  void follow(std::vector<Block*> blocks) { blocks_ = std::move(blocks); }

  // Moves about `most_bytes` at most, so that blocks take at most `dram_bytes` of host memory, and as much of
  // that as there are blocks for. True: there is more to move.
  bool settle(std::uint64_t dram_bytes, std::uint64_t most_bytes);
  // Why the drive took or gave a block no more in the last settle(); 0.
  int error() const { return error_; }

 private:
  // Which way blocks go, up to how much, and those that are on it.
  struct Moving;
  void run(Moving& moving);
  void begin_some(Moving& moving);
  int begin(Moving& moving, Block& block, std::uint64_t token);
  void end(Moving& moving, Block& block, int error);
  int begin_to_leave(Block& block, std::uint64_t token);
  int begin_to_return(Block& block, std::uint64_t token);
  void take_in(Block& block);
  bool is_whole(const Block& block);

  Drive* drive_;
  BlockMemory* memory_;
  Workers* workers_;
  std::vector<Block*> blocks_;
  int error_ = 0;
};

}  // namespace terrace::liballoc::optimizer
