#include "liballoc/gpu/optimizer/placement.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <utility>

namespace terrace::liballoc::optimizer {

struct Placement::Moving {
  bool concerns(const Block& block) const {
    return out ? block.memory != nullptr : block.memory == nullptr && block.place != nullptr;
  }
  // What leaves does so until there is enough, what returns as far as it fits.
  bool has_room_for(const Block& block) const {
    return out ? begun_bytes < most_bytes : begun_bytes + block.bytes() <= most_bytes;
  }

  bool out = false;
  std::uint64_t most_bytes = 0;   // to be moved
  std::uint64_t begun_bytes = 0;  // of that
  std::size_t next = 0;           // from the end if they leave, else from the beginning
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

void Placement::run(Moving& moving) {
  for (begin_some(moving); moving.in_flight != 0; begin_some(moving))
    drive_->collect(true, [&](std::uint64_t token, int error) {
      end(moving, *std::exchange(moving.blocks[token], nullptr), error);
    });
}

// As many as the drive takes at once.
void Placement::begin_some(Moving& moving) {
  for (; moving.next < blocks_.size() && moving.in_flight < moving.blocks.size(); ++moving.next) {
    Block& block = *blocks_[moving.out ? blocks_.size() - 1 - moving.next : moving.next];
    if (!moving.concerns(block)) continue;
    if (error_ != 0 || !moving.has_room_for(block)) return;
    const auto slot = std::ranges::find(moving.blocks, nullptr);
    error_ = begin(moving, block, static_cast<std::uint64_t>(slot - moving.blocks.begin()));
  }
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
