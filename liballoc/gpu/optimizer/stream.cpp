#include "liballoc/gpu/optimizer/stream.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

namespace terrace::liballoc::optimizer {

Stream::Stream(Drive* drive, BlockMemory* memory, Workers* workers, std::uint64_t staging_bytes)
    : drive_(drive), memory_(memory), workers_(workers), staging_limit_bytes_(staging_bytes) {}

std::size_t Stream::most_slots() const {
  return std::clamp<std::size_t>(staging_limit_bytes_ / slot_bytes, 1, Drive::most_in_flight);
}

int Stream::take_slots() {
  if (!slots_.empty()) return 0;
  if (const int error = staging_.map(most_slots() * slot_bytes); error != 0) return error;
  staging_bytes_ = staging_.bytes();
  slots_.resize(most_slots());
  return 0;
}

void Stream::set_staging(std::uint64_t bytes) {
  staging_limit_bytes_ = bytes;
  if (slots_.size() > most_slots()) give_back_staging();
}

void Stream::give_back_staging() {
  slots_.clear();
  staging_.unmap();
  staging_bytes_ = 0;
}

Stream::Slot* Stream::free_slot() {
  const auto found = std::ranges::find(slots_, State::free, &Slot::state);
  return found == slots_.end() ? nullptr : &*found;
}

Stream::Slot* Stream::slot_of(const Block* block) {
  const auto found = std::ranges::find_if(
      slots_, [&](const Slot& slot) { return slot.block == block && slot.state != State::free; });
  return found == slots_.end() ? nullptr : &*found;
}

int Stream::start_read(Slot& slot, Block* block) {
  slot = {.state = State::reading, .error = 0, .block = block};
  if (block->generation == 0) {  // never written
    std::memset(memory_of(slot), 0, block->bytes());
    slot.state = State::there;
    return 0;
  }
  const int error =
      drive_->start_read(*block, memory_of(slot), static_cast<std::uint64_t>(&slot - slots_.data()));
  if (error != 0) slot = {.state = State::there, .error = error, .block = block};
  return error;
}

// Reads are begun for as many blocks from the present one on as there are slots; the present one always gets
// the first that is free, since it is asked for first.
void Stream::read_ahead(Run& run, std::size_t present) {
  run.next_read = std::max(run.next_read, present);
  for (; run.next_read < run.blocks.size(); ++run.next_read) {
    Block* const block = run.blocks[run.next_read];
    if (block->memory != nullptr) continue;
    Slot* const slot = free_slot();
    if (slot == nullptr) return;
    start_read(*slot, block);
  }
}

void Stream::settle(Slot& slot, int error) {
  if (slot.state == State::reading) {
    slot.state = State::there;
    slot.error = error;
  } else if (slot.state == State::writing) {
    if (error != 0) keep(slot, error);
    slot.state = State::free;
  }
}

void Stream::collect(bool wait) {
  drive_->collect(wait, [this](std::uint64_t token, int error) { settle(slots_[token], error); });
}

void Stream::drain() {
  const auto under_way = [](const Slot& slot) {
    return slot.state == State::reading || slot.state == State::writing;
  };
  while (std::ranges::any_of(slots_, under_way)) collect(true);
  for (Slot& slot : slots_) slot.state = State::free;
}

// The block's memory in host memory, once it has been read.
int Stream::await(Run& run, std::size_t present, Slot** out) {
  for (collect(false);; collect(true)) {
    read_ahead(run, present);
    Slot* const slot = slot_of(run.blocks[present]);
    if (slot == nullptr || slot->state == State::reading) continue;
    *out = slot;
    return slot->error;
  }
}

int Stream::verify(Slot& slot, std::size_t* damaged) {
  if (slot.block->generation == 0) return 0;
  std::atomic<std::size_t> bad = slices_per_block;
  const std::byte* const content = memory_of(slot);
  workers_->run(slices_per_block, [&](std::size_t i) {
    if (slot.block->sum_of(content, i) != slot.block->sums[i]) bad = i;
  });
  if (bad == slices_per_block) return 0;
  ++checksum_failures_;
  *damaged = bad;
  return EBADMSG;
}

void Stream::keep(Slot& slot, int error) {
  Block& block = *slot.block;
  if (block.place == nullptr && memory_->place({&block, 1}) != 0) {
    lost_ = &block;
    return;
  }
  memory_->fill(block);
  std::memcpy(block.memory, memory_of(slot), block.bytes());
  warning_ = std::string("the drive refuses to take states (") + std::strerror(error) +
             "): " + std::to_string(memory_->bytes() >> 20) + " MiB of them stay in DRAM";
}

void Stream::put_away(Slot& slot, bool was_changed) {
  if (!was_changed) {
    slot.state = State::free;
    return;
  }
  slot.state = State::writing;
  const int error =
      drive_->start_write(*slot.block, memory_of(slot), static_cast<std::uint64_t>(&slot - slots_.data()));
  if (error != 0) settle(slot, error);
}

int Stream::visit_on_drive(Run& run, std::size_t i, std::size_t* slice) {
  if (const int error = take_slots(); error != 0) return error;
  Slot* slot = nullptr;
  if (const int error = await(run, i, &slot); error != 0) return error;
  if (const int error = verify(*slot, slice); error != 0) return error;
  if (const int error = run.work.begin(i); error != 0) return error;
  Block& block = *slot->block;
  std::byte* const content = memory_of(*slot);
  if (run.writes) ++block.generation;
  workers_->run(slices_per_block, [&](std::size_t k) {
    run.work.slice(i, k, content);
    if (run.writes) block.sums[k] = block.sum_of(content, k);
  });
  put_away(*slot, run.writes);
  run.work.end(i);
  return 0;
}

int Stream::visit_in_dram(Run& run, std::size_t i, std::size_t end) {
  for (std::size_t k = i; k < end; ++k)
    if (const int error = run.work.begin(k); error != 0) return error;
  workers_->run((end - i) * slices_per_block, [&](std::size_t k) {
    const std::size_t visit = i + k / slices_per_block;
    run.work.slice(visit, k % slices_per_block, run.blocks[visit]->memory);
  });
  for (std::size_t k = i; k < end; ++k) run.work.end(k);
  return 0;
}

int Stream::run(std::span<Block* const> blocks, bool writes, std::size_t together, Work& work,
                std::size_t* failed, std::size_t* slice) {
  lost_ = nullptr;
  if (slots_.size() < most_slots()) give_back_staging();  // there may be more of them
  Run run{.blocks = blocks, .writes = writes, .together = together, .work = work};
  is_running_ = true;
  const int error = visit_all(run, failed, slice);
  if (drive_ != nullptr) drain();
  is_running_ = false;
  if (error != 0 || lost_ == nullptr) return error;
  *failed = static_cast<std::size_t>(std::ranges::find(blocks, lost_) - blocks.begin());
  return ENOMEM;
}

int Stream::visit_all(Run& run, std::size_t* failed, std::size_t* slice) {
  const std::span<Block* const> blocks = run.blocks;
  for (std::size_t i = 0; i < blocks.size();) {
    std::size_t end = i;
    while (end < blocks.size() && end - i < run.together && blocks[end]->memory != nullptr) ++end;
    const int error = end == i ? visit_on_drive(run, i, slice) : visit_in_dram(run, i, end);
    if (error != 0) {
      *failed = i;
      return error;
    }
    i = std::max(end, i + 1);
  }
  return 0;
}

}  // namespace terrace::liballoc::optimizer
