// Which frames stand behind the slots of a reserved address range, and how many blocks lie on each.
//
// A slot is one frame's worth of addresses. Behind it is a frame or nothing; on it lie the blocks that touch
// it (two that share a border lie on the same one) and the marks of those that were freed. A frame may be
// moved when no block lies on it and the host knows that all its marks have passed: then nobody can touch it.
//
//   slot        0        1        2        3           4
//   frame       f7       f2       -        f9          -            spare: f4, f1
//   users       2        1        0        0 (moves)   0
//   blocks   |---A---|-----B-----|                  (addresses for more)
//
// Frames held are counted against the limit whether they are mapped or spare. Not thread-safe. Errors are
// errno values from the device; a call that fails has changed nothing.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "liballoc/gpu/heap/placement.h"
#include "liballoc/gpu/heap/stream_clocks.h"
#include "tiers/gpu/device.h"

namespace terrace::liballoc::gpu {

class FrameLedger {
 public:
  using Frame = tiers::gpu::Frame;
  using Slot = std::uint64_t;

  FrameLedger(tiers::gpu::Device& device, StreamClocks& clocks) : device_(device), clocks_(clocks) {}
  ~FrameLedger();
  FrameLedger(const FrameLedger&) = delete;
  FrameLedger& operator=(const FrameLedger&) = delete;

  // Reserves the addresses. ENOMEM, or the device's error.
  int open(std::uint64_t slots);
  [[nodiscard]] std::byte* base() const { return base_; }
  [[nodiscard]] std::uint64_t slots() const { return slot_count_; }
  [[nodiscard]] std::uint64_t frame_bytes() const { return frame_bytes_; }

  [[nodiscard]] bool mapped(Slot slot) const { return table_[slot].state != 0; }
  [[nodiscard]] std::uint32_t users(Slot slot) const { return table_[slot].users; }
  // No block, a frame, and every use of it has passed.
  bool movable(Slot slot);
  // All uses that were marked on the slot have passed.
  bool passed(Slot slot);
  // What the host would have to wait for; nobody's if nothing.
  Mark open_mark(Slot slot);

  // A block lies on [span) from now on; no longer, with its last use.
  void use(Span span);
  void leave(Span span, Mark mark);

  // Maps spare frames at unmapped slots; there are enough of them.
  int map(Slot first, std::uint64_t count);
  // Takes the frames of mapped slots and keeps them spare. Everything that uses them has passed.
  int unmap(Slot first, std::uint64_t count);
  // Puts other frames behind mapped slots, of device or host memory, and hands out those that were there. If
  // the device refuses, the old ones are mapped again.
  int exchange(Slot first, std::vector<Frame>* frames);
  // Unmaps frames of host memory and destroys them.
  int drop_host(Slot first, std::uint64_t count);
  [[nodiscard]] bool in_host_memory(Slot slot) const { return table_[slot].state == 2; }

  // Device frames that the caller maps for a while; they count as held. There are enough.
  std::vector<Frame> take_spare(std::uint64_t count);
  void give_spare(const std::vector<Frame>& frames) {
    spare_.insert(spare_.end(), frames.begin(), frames.end());
  }

  // New spare frames of device memory: as many as the limit and the device give, up to `count`. The first
  // error.
  int create(std::uint64_t count);
  int destroy_spare(std::uint64_t keep);

  [[nodiscard]] std::uint64_t held() const { return held_; }  // device frames, mapped and spare
  [[nodiscard]] std::uint64_t spare() const { return spare_.size(); }
  [[nodiscard]] std::uint64_t created() const { return created_; }
  [[nodiscard]] std::uint64_t map_calls() const { return map_calls_; }
  void set_limit(std::uint64_t frames) { limit_ = frames; }
  [[nodiscard]] std::uint64_t limit() const { return limit_; }
  [[nodiscard]] std::string check_invariants() const;

 private:
  struct Entry {  // all zero: never touched
    std::uint64_t handle;
    std::uint64_t sequence;  // the latest mark
    Owner owner;
    std::uint32_t users;
    std::uint32_t state;  // 0: nothing is mapped, 1: device memory, 2: host memory
  };

  [[nodiscard]] Mark mark_of(Slot slot) const { return {table_[slot].sequence, table_[slot].owner}; }
  void put_mark(Slot slot, Mark mark);
  void enter(Slot first, const std::vector<Frame>& frames);
  void destroy(Slot first, Slot end);  // the frames of slots that were unmapped
  [[nodiscard]] std::byte* address(Slot slot) const { return base_ + slot * frame_bytes_; }

  tiers::gpu::Device& device_;
  StreamClocks& clocks_;
  std::byte* base_ = nullptr;
  std::uint64_t slot_count_ = 0, frame_bytes_ = 0, limit_ = 0;
  std::unique_ptr<Entry[], decltype(&std::free)> table_{nullptr, &std::free};
  std::unordered_map<Slot, std::vector<Mark>> other_marks_;  // of further streams, where there are any
  std::vector<Frame> spare_;
  std::vector<Frame> batch_;  // for one call of map()
  std::uint64_t held_ = 0, created_ = 0, map_calls_ = 0;
};

}  // namespace terrace::liballoc::gpu
