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
// Blocks below 1 MiB live in a range of their own, so that they do not pin frames among large ones.
//
// Streams: a freed block is its stream's at once. record_stream() adds streams whose work at the time of the
// free is waited for as well, on the host's side by asking: the block is free when they have passed.
//
// Eviction copies a block's bytes to host memory and takes the frames that no other block lies on; restoring
// maps frames at the same address again (heap_evict.cpp). A block that is offered (offers.h) is evicted where
// frames are short, and else stays.
//
// A daemon may grant less than the budget (heap_session.h). The grant is a second limit, which may fall below
// what is held: then nothing grows, and what can be given back is.
//
// Thread-safe: one lock. Errors are errno values. Bytes. A heap is not used in a forked child.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "liballoc/gpu/heap/frame_ledger.h"
#include "liballoc/gpu/heap/grant.h"
#include "liballoc/gpu/heap/host_copy.h"
#include "liballoc/gpu/heap/offers.h"
#include "liballoc/gpu/heap/placement.h"
#include "liballoc/gpu/heap/stream_clocks.h"
#include "liballoc/gpu/terrace_gpu.h"
#include "tiers/gpu/device.h"

namespace terrace::liballoc::gpu {

class Heap {
 public:
  using Stream = tiers::gpu::Stream;
  static constexpr std::uint64_t small_bytes = std::uint64_t{1} << 20;  // below: the small blocks' range

  // The device outlives the heap; nothing else need be destroyed before it.
  explicit Heap(tiers::gpu::Device& device) : device_(device), clocks_(device), ledger_(device, clocks_) {}
  ~Heap();  // no other call is running; what was allocated is gone
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
  using Handle = Placement::Handle;
  static constexpr Handle none = Placement::none;

  struct Arena {
    Arena(std::uint64_t begin, std::uint64_t bytes, std::uint64_t frame_bytes)
        : placement(begin, bytes, frame_bytes) {}
    Placement placement;
    std::vector<std::uint64_t> asked_bytes;  // by handle of a block
  };
  struct Block {
    Arena* arena;
    Handle piece;
  };
  struct Waiting {  // freed, but streams that were recorded have not passed
    Block block;
    Mark mark;  // of the free's own stream
    std::vector<Mark> others;
  };

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

  Arena& arena_for(std::uint64_t bytes) { return arenas_[bytes < small_bytes ? 0 : 1]; }
  [[nodiscard]] std::uint64_t offset_of(const void* block) const;
  [[nodiscard]] Span span_of(const Block& block) const;
  [[nodiscard]] Span frames_of(Span span) const;

  int find_place(std::uint64_t bytes, Stream stream, Block* out);
  Handle place(Arena* arena, std::uint64_t bytes, Owner owner, Stream stream);
  Handle take(Arena* arena, Handle piece, std::uint64_t bytes);
  Handle reuse_passed(Arena* arena, std::uint64_t bytes, Owner owner);
  Handle reuse_behind_event(Arena* arena, std::uint64_t bytes, Owner owner, Stream stream);
  Handle grow(Arena* arena, std::uint64_t bytes, Owner owner, bool new_frames);
  bool back_with_frames(Arena* arena, Handle block, bool new_frames);
  [[nodiscard]] bool much_is_idle() const;
  [[nodiscard]] std::uint64_t missing_frames(Span span) const;
  int map_missing(Arena* arena, Handle block);
  void put_back(Arena* arena, Handle block, Mark mark);
  void mark_unmapped(Arena* arena, Handle near, Span span);
  void gather(std::uint64_t wanted);
  void strip(Arena* arena, Handle piece, std::uint64_t wanted);
  bool relieve();
  bool settle_passed();
  bool wait_for_one();
  void poll_waiting();
  void release(const Block& block, Mark mark);
  void note_allocated(std::uint64_t bytes);

  void apply_limits();
  [[nodiscard]] std::uint64_t frames_over() const;
  void give_up_excess();
  [[nodiscard]] std::uint64_t leaving_bytes() const;
  [[nodiscard]] std::uint64_t used_bytes() const;
  std::uint64_t evict_one_offered();
  bool wait_for_grant(std::unique_lock<std::mutex>* lock, std::uint64_t bytes,
                      std::chrono::steady_clock::time_point until);

  int order_copy(std::uint64_t offset, Stream stream);
  int evict_to_copy(std::uint64_t offset, const Block& block);
  int evict_to_host_frames(std::uint64_t offset, const Block& block);
  int restore_from_copy(std::uint64_t offset, std::unique_lock<std::mutex>* lock, Stream stream);
  int bring_back(const Evicted& evicted, Stream stream);
  void end_way_back(const std::shared_ptr<HostCopy>& copy, int error);
  void cancel(Evicted* evicted, Stream stream);
  int restore_from_host_frames(Evicted* evicted, Stream stream);
  int make_host_frames(std::uint64_t count, std::vector<tiers::gpu::Frame>* out);
  int copy_to_frames(const std::vector<tiers::gpu::Frame>& frames, std::uint64_t offset, tiers::gpu::Way way);
  int find_frames(std::uint64_t wanted);
  [[nodiscard]] std::optional<Slots> leaving_slots(Span span);
  [[nodiscard]] Slots inner_slots(Span span) const;
  void wait_for_marks(Slots slots);
  [[nodiscard]] Slots host_slots(Span span) const;
  bool take_frames(const Evicted& evicted);
  void poll_copies();
  void poll_arriving();
  bool wait_for_copy();
  void forget_evicted(std::uint64_t offset, Stream stream);

  std::mutex mutex_;
  tiers::gpu::Device& device_;
  StreamClocks clocks_;
  FrameLedger ledger_;
  std::vector<Arena> arenas_;                                       // small, large
  std::unordered_map<std::uint64_t, Block> live_;                   // by offset
  std::unordered_map<std::uint64_t, std::vector<Owner>> recorded_;  // streams of live blocks
  std::vector<Waiting> waiting_;
  std::vector<Handle> donors_;
  terrace_gpu_statistics counts_{};
  int refusal_ = 0;  // why the request under way finds no frames

  std::unordered_map<std::uint64_t, Evicted> evicted_;  // live blocks, by offset
  std::uint64_t leaving_ = 0;                           // of them, how many
  std::vector<std::shared_ptr<HostCopy>> draining_;     // a stream may still use them
  std::vector<std::shared_ptr<HostCopy>> arriving_;     // the same, and a stream relies on them
  int lost_ = 0;                                        // why what came back is not what left
  std::vector<std::shared_ptr<HostCopy>> abandoned_;    // it is not known when it does not
  Stream copy_stream_ = nullptr;

  std::uint64_t own_budget_bytes_ = 0;
  Grant grant_;
  std::condition_variable grant_changed_;
  Offers offers_;
};

}  // namespace terrace::liballoc::gpu
