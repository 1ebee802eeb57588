#include "liballoc/gpu/optimizer/placement.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <utility>

namespace terrace::liballoc::optimizer {

struct Placement::Moving {
  bool out = false;
  std::uint64_t most_bytes = 0;   // to be moved
  std::uint64_t begun_bytes = 0;  // of that
  std::array<Block*, Drive::most_in_flight> blocks{};
  std::size_t in_flight = 0;
};

bool Placement::settle(std::uint64_t dram_bytes, std::uint64_t most_bytes) {
  error_ = 0;
  const std::uint64_t taken = memory_->bytes();
  Moving moving{.out = taken > dram_bytes, .most_bytes = most_bytes};
  if (moving.out) {
    moving.most_bytes = std::min(most_bytes, taken - dram_bytes);
    run(moving);
    return error_ == 0 && moving.begun_bytes != 0 && memory_->bytes() > dram_bytes;
  }
  const std::uint64_t room = dram_bytes - taken;
  moving.most_bytes = std::min(most_bytes, room);
  run(moving);
  return error_ == 0 && moving.begun_bytes != 0 && room > most_bytes;
}

// What leaves goes from the end on, until there is enough; what returns from the beginning, as far as it
// fits.
void Placement::run(Moving& moving) {
  std::size_t next = 0;
  const auto is_to_move = [&](const Block& block) {
    return moving.out ? block.memory != nullptr : block.memory == nullptr && block.place != nullptr;
  };
  const auto has_room = [&](const Block& block) {
    return moving.out ? moving.begun_bytes < moving.most_bytes
                      : moving.begun_bytes + block.bytes() <= moving.most_bytes;
  };
  do {
    for (; next < blocks_.size() && error_ == 0 && moving.in_flight < moving.blocks.size(); ++next) {
      Block& block = *blocks_[moving.out ? blocks_.size() - 1 - next : next];
      if (!is_to_move(block)) continue;
      if (!has_room(block)) {
        next = blocks_.size();
        break;
      }
      const auto place = std::ranges::find(moving.blocks, nullptr);
      error_ = begin(moving, block, static_cast<std::uint64_t>(place - moving.blocks.begin()));
    }
    if (moving.in_flight == 0) break;
    drive_->collect(true, [&](std::uint64_t token, int error) {
      end(moving, *std::exchange(moving.blocks[token], nullptr), error);
    });
  } while (true);
}

int Placement::begin(Moving& moving, Block& block, std::uint64_t token) {
  if (!moving.out && block.generation == 0) {  // never written: it is all zeros in DRAM as well
    take_in(block);
    moving.begun_bytes += block.bytes();
    return 0;
  }
  const int error = moving.out ? begin_to_leave(block, token) : begin_to_return(block, token);
  if (error != 0) return error;
  moving.blocks[token] = &block;
  moving.begun_bytes += block.bytes();
  ++moving.in_flight;
  return 0;
}

void Placement::end(Moving& moving, Block& block, int error) {
  --moving.in_flight;
  if (!moving.out && error == 0 && !is_whole(block)) error = EBADMSG;
  if (error != 0) error_ = error;
  if (moving.out && error == 0) memory_->empty(block);
  if (!moving.out && error == 0) take_in(block);
  if (!moving.out && error != 0) memory_->forget(block);
}

// Nobody else writes to it meanwhile.
int Placement::begin_to_leave(Block& block, std::uint64_t token) {
  if (block.extent.bytes == 0)
    if (const int error = drive_->reserve(block.bytes(), &block.extent); error != 0) return error;
  ++block.generation;
  workers_->run(slices_per_block, [&](std::size_t i) { block.sums[i] = block.sum_of(block.memory, i); });
  return drive_->start_write(block, block.memory, token);
}

int Placement::begin_to_return(Block& block, std::uint64_t token) {
  return drive_->start_read(block, block.place, token);
}

void Placement::take_in(Block& block) {
  memory_->fill(block);
  drive_->release(std::exchange(block.extent, {}));
}

bool Placement::is_whole(const Block& block) {
  std::atomic<bool> whole = true;
  workers_->run(slices_per_block, [&](std::size_t i) {
    if (block.sum_of(block.place, i) != block.sums[i]) whole = false;
  });
  return whole;
}

}  // namespace terrace::liballoc::optimizer
