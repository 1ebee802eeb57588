// Blocks that leave device memory, and come back to the same address.
//
//              ┌─ evict ─► leaving ──copy has passed: frames are taken──► stored ─ restore ─► arriving ─┐
//   resident ──┤              └── restore: nothing was taken yet ──┐                                    ├─►
//   resident
//              └─ evict, keep_mapped ─► host_mapped ─ restore ─────┴────────────────────────────────────┘
//
// The copy holds the whole block. Frames are taken only where no other block lies, and where all uses of free
// memory beside the block have passed; what stays is written again on the way back, with the same bytes. A
// step that fails leaves the bytes where they were; those that left have a checksum, verified before they are
// given out. A copy back that fails after restore() returned is past mending (the stream went on without the
// bytes), and is what every later call that gives out memory returns: lost().
//
// Blocks are known by their offsets. Not thread-safe: under the heap's lock.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "liballoc/gpu/heap/arenas.h"
#include "liballoc/gpu/heap/frame_ledger.h"
#include "liballoc/gpu/heap/host_copy.h"
#include "liballoc/gpu/heap/stream_clocks.h"
#include "liballoc/gpu/terrace_gpu.h"
#include "tiers/gpu/device.h"

namespace terrace::liballoc::gpu {

class Evictions {
 public:
  using Stream = tiers::gpu::Stream;
  // Makes so many frames spare, whatever it takes: 0, or the error for which there are none.
  using FindFrames = std::function<int(std::uint64_t frames)>;

  // All of them live longer. `counts` gets what is done here.
  Evictions(tiers::gpu::Device& device, StreamClocks& clocks, FrameLedger& ledger, Arenas& arenas,
            terrace_gpu_statistics& counts, FindFrames find_frames)
      : device_(device),
        clocks_(clocks),
        ledger_(ledger),
        arenas_(arenas),
        counts_(counts),
        find_frames_(std::move(find_frames)) {}
  ~Evictions();  // waits for the copies
  Evictions(const Evictions&) = delete;

  [[nodiscard]] bool has(std::uint64_t offset) const { return evicted_.contains(offset); }
  // Whether a block is on its way out, and how many bytes are.
  [[nodiscard]] bool is_any_leaving() const { return leaving_ > 0; }
  [[nodiscard]] std::uint64_t leaving_bytes() const;
  // Why what came back is not what left; 0: it is.
  [[nodiscard]] int lost() const { return lost_; }

  // Copies run behind what is in `stream`, and in the streams of `recorded`, from now on.
  int order_copy(Stream stream, const std::vector<Owner>& recorded);
  // After order_copy(). The block is not evicted. As Heap::evict(), without keep_mapped and with it.
  int evict_to_copy(std::uint64_t offset, const Block& block);
  int evict_to_host_frames(std::uint64_t offset, const Block& block);
  // As Heap::restore(). The lock is let go of for a while, in which the block may be freed.
  int restore(std::uint64_t offset, Stream stream, const std::vector<Owner>& recorded,
              std::unique_lock<std::mutex>* lock);
  // A block is freed where it is.
  void forget(std::uint64_t offset, Stream stream);

  // Takes note of copies that have passed. Does not wait.
  void poll();
  // Waits for a block that is leaving. False: there is none, or its frames did not become free.
  bool wait_for_one();

 private:
  // A block that is not, or not only, in device memory.
  struct Evicted {
    enum class State : std::uint8_t { leaving, stored, arriving, host_mapped };
    State state = State::leaving;
    Block block{};
    std::uint64_t asked_bytes = 0;
    std::shared_ptr<HostCopy> copy;  // none when host_mapped; whoever sums it has it, too
  };
  struct Slots {
    std::uint64_t first = 0;
    std::uint64_t count = 0;
  };

  int bring_back_as_it_is(std::uint64_t offset, Stream stream, const std::vector<Owner>& recorded,
                          std::unique_lock<std::mutex>* lock);
  int restore_from_copy(std::uint64_t offset, std::unique_lock<std::mutex>* lock, Stream stream);
  int bring_back(const Evicted& evicted, Stream stream);
  void end_way_back(const std::shared_ptr<HostCopy>& copy, int error);
  void cancel(Evicted* evicted, Stream stream);
  int restore_from_host_frames(const Evicted& evicted, Stream stream, const std::vector<Owner>& recorded);
  int make_host_frames(std::uint64_t count, std::vector<tiers::gpu::Frame>* out);
  int copy_to_frames(const std::vector<tiers::gpu::Frame>& frames, std::uint64_t offset, tiers::gpu::Way way);
  [[nodiscard]] std::optional<Slots> leaving_slots(Span span);
  [[nodiscard]] Slots inner_slots(Span span) const;
  [[nodiscard]] Slots host_slots(Span span) const;
  void wait_for_marks(Slots slots);
  bool take_frames(const Evicted& evicted);
  void poll_arriving();

  tiers::gpu::Device& device_;
  StreamClocks& clocks_;
  FrameLedger& ledger_;
  Arenas& arenas_;
  terrace_gpu_statistics& counts_;
  FindFrames find_frames_;
  std::unordered_map<std::uint64_t, Evicted> evicted_;  // live blocks, by offset
  std::uint64_t leaving_ = 0;                           // of them, how many
  std::vector<std::shared_ptr<HostCopy>> draining_;     // a stream may still use them
  std::vector<std::shared_ptr<HostCopy>> arriving_;     // the same, and a stream relies on them
  std::vector<std::shared_ptr<HostCopy>> abandoned_;    // it is not known when it does not
  int lost_ = 0;
  Stream copy_stream_ = nullptr;
};

}  // namespace terrace::liballoc::gpu
