// The heap in a GPU's memory: blocks at fixed addresses over frames that move.
//
// PyTorch's caching allocator keeps what it once got from the driver in segments, and a segment whose free
// parts are too small serves nobody: on irregular steps half of the memory lies idle. Here addresses are
// plenty and frames are few: a free range that lacks frames gets those of free ranges elsewhere (GMLake,
// ASPLOS 2024, does this with virtual memory management, too; expandable segments only at one end). In this
// order a request is served by
//
//   1. a free range that is wholly mapped, of the same stream or one that has passed: no driver call
//   2. a free range completed with spare frames, and, where much lies idle, with frames moved out of other
//      free ranges
//   3. a mapped range that another stream still uses: this stream waits for the event of the free, not the
//   host
//   4. new frames, within the budget; frames moved, where there are none to be had
//   5. frames for whose last use the host waits: one event after the other, never the device
//
// Where that is, and the steps but the last, are arenas.h.
//
// Streams: a freed block is its stream's at once. record_stream() adds streams whose work at the time of the
// free is waited for as well, on the host's side by asking: the block is free when they have passed.
//
// Eviction copies a block's bytes to host memory and takes the frames that no other block lies on; restoring
// maps frames at the same address again (evictions.h). A block that is offered (offers.h) is evicted where
// frames are short, and else stays.
//
// A daemon may grant less than the budget (heap_session.h). The grant is a second limit, which may fall below
// what is held: then nothing grows, and what can be given back is.
//
// Thread-safe: one lock. Errors are errno values. Bytes. A heap is not used in a forked child.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "liballoc/gpu/heap/arenas.h"
#include "liballoc/gpu/heap/evictions.h"
#include "liballoc/gpu/heap/frame_ledger.h"
#include "liballoc/gpu/heap/grant.h"
#include "liballoc/gpu/heap/offers.h"
#include "liballoc/gpu/heap/stream_clocks.h"
#include "liballoc/gpu/terrace_gpu.h"
#include "tiers/gpu/device.h"

namespace terrace::liballoc::gpu {

class Heap {
 public:
  using Stream = tiers::gpu::Stream;

  // The device outlives the heap; nothing else need be destroyed before it.
  explicit Heap(tiers::gpu::Device& device) : device_(device), clocks_(device), ledger_(device, clocks_) {}
  // No other call is running; what was allocated is gone.
  ~Heap() = default;
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // `budget_bytes`: most that frames may take; 0: the device's memory. EINVAL: less than a frame, or more
  // than the device has; ENOMEM, or the device's error.
  int open(std::uint64_t budget_bytes);

  // Where only the grant of a daemon stands against it, this waits for a larger one, at most so long.
  static constexpr std::chrono::milliseconds grant_patience{2000};
  // ENOMEM: the budget, the grant or the device is used up; EINVAL: 0 bytes; EIO, ENODEV: the device, or a
  // restore() that failed after it returned.
  int allocate(std::uint64_t bytes, Stream stream, void** out);
  // Work in `stream` until now may use the block. EINVAL: no live block begins there.
  int free(void* block, Stream stream);
  // What is in `stream` at the time of the free may use the block, too. EINVAL as free().
  int record_stream(void* block, Stream stream);
  // The stream is about to be destroyed. What was freed in it is reused once its work has passed.
  void end_stream(Stream stream);
  // The size that was asked for; 0: no live block begins there.
  std::uint64_t size_of(const void* block);

  // Moves the block's bytes to host memory, behind what is in `stream` and in streams that were recorded.
  // Without `keep_mapped` this returns at once, and the frames are free when the copy has passed; with it the
  // host waits for the copy, since a kernel that runs later must find the new memory. EINVAL as free();
  // EALREADY: it is evicted; ENOMEM: host memory, or no frame would become free; EIO. On failure the block is
  // where it was.
  int evict(void* block, bool keep_mapped, Stream stream);
  // Brings it back to the same address; `stream` sees the bytes. Waits like evict(). EALREADY: it is not
  // evicted; ENOMEM: no frames (it stays evicted, try again); EBADMSG: the bytes are not those that left, and
  // are not given out; EBUSY: another thread restores it; EINVAL: as free(), or another thread freed it
  // meanwhile; EIO. The copy back is only queued: if it fails later, a stream has computed with what was not
  // there, and from then on allocate(), evict() and restore() return the device's error, on every block.
  int restore(void* block, Stream stream);

  // Until restore() or free() no work uses the block but what is in `stream`, and in streams that were
  // recorded, by now: it may be evicted whenever frames are short, without keep_mapped. restore() brings it
  // back, or returns 0 at once where it never left. EINVAL as free(); EALREADY: it is evicted or offered;
  // EIO.
  int offer(void* block, Stream stream);

  // The most that frames may take by what a daemon grants. Never fails: what cannot be given back now is by
  // obey() later. `is_connected`: whoever grants may grant more when asked. Any thread.
  void set_grant(std::uint64_t bytes, bool is_connected);
  // Nobody can grant more until set_grant() comes again: nothing waits for it, and the last grant holds.
  void lose_daemon();
  // Gives back what it can of what it holds beyond its grant, now and then. Does not wait. Any thread.
  void obey();
  struct Report {
    std::uint64_t held_bytes = 0;    // frames of device memory
    std::uint64_t wanted_bytes = 0;  // it would use, within its own budget
    std::uint64_t allocated_bytes = 0, evicted_bytes = 0;
    std::uint64_t limit_bytes = 0;  // as it obeys
  };
  // Once a round: what requests went without is forgotten after some. Any thread.
  Report report();

  // Gives back every frame that no live block uses, once its uses have passed (does not wait for them).
  int give_back();
  // EBUSY: more is in use; the old budget stays. EINVAL as open().
  int set_budget(std::uint64_t budget_bytes);
  int set_budget_share(double share);  // of the device's memory, above 0 and at most 1

  terrace_gpu_statistics statistics();
  std::uint64_t map_calls();  // to the driver, since the start
  std::string check_invariants();

 private:
  struct Waiting {  // freed, but streams that were recorded have not passed
    Block block;
    Mark mark;  // of the free's own stream
    std::vector<Mark> others;
  };

  [[nodiscard]] std::uint64_t offset_of(const void* block) const;
  [[nodiscard]] const std::vector<Owner>& recorded_of(std::uint64_t offset) const;

  int find_place(std::uint64_t bytes, Stream stream, Block* out);
  int find_frames(std::uint64_t wanted);
  bool relieve();
  bool wait_for_one();
  void poll_waiting();
  void note_allocated(std::uint64_t bytes);

  void apply_limits();
  [[nodiscard]] std::uint64_t frames_over() const;
  void give_up_excess();
  [[nodiscard]] std::uint64_t used_bytes() const;
  std::uint64_t evict_one_offered();
  bool wait_for_grant(std::unique_lock<std::mutex>* lock, std::uint64_t bytes,
                      std::chrono::steady_clock::time_point until);

  std::mutex mutex_;
  tiers::gpu::Device& device_;
  StreamClocks clocks_;
  FrameLedger ledger_;
  terrace_gpu_statistics counts_{};
  Arenas arenas_{ledger_, clocks_, counts_};
  Evictions evictions_{device_, clocks_, ledger_,
                       arenas_, counts_, [this](std::uint64_t frames) { return find_frames(frames); }};
  std::unordered_map<std::uint64_t, Block> live_;                   // by offset
  std::unordered_map<std::uint64_t, std::vector<Owner>> recorded_;  // streams of live blocks
  std::vector<Waiting> waiting_;

  std::uint64_t own_budget_bytes_ = 0;
  Grant grant_;
  std::condition_variable grant_changed_;
  Offers offers_;
};

}  // namespace terrace::liballoc::gpu
