// The memory that a job and terraced share: counters and the event ring of one session.
//
// The daemon makes a memfd, lays both structures out in it and says their offsets in Welcome. There is one
// writer, the job; the daemon only reads, and treats what it reads as hostile: every word may be anything and
// may change between two reads. Nobody ever waits here, so either side may be killed at any instruction.
//
// EventRing: the producer writes on whether or not anybody reads, overwriting the oldest. A slot carries the
// low half of its index + 1 (`position`); a reader that finds another one there knows that the slot is older,
// newer or half written, and counts it lost.
//
//   head = 11, capacity 8      slot   0  1  2  3  4  5  6  7
//                              index  8  9 10  3  4  5  6  7     readable: 3..10
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace terrace::wire {

using Word = std::atomic<std::uint64_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 8);

// The fields of struct terrace_statistics under the same names, then the state of the session, then the
// codecs of terrace_statistics and what follows them, then how fast tiers were of late: bytes moved each way
// and the time in which they were in transfer (tiers/adaptors/meter_adaptor.h). Only ever append: the number
// of a counter is part of the protocol.
enum class Stat : std::uint32_t {
  heap_live_bytes,
  heap_peak_bytes,
  resident_bytes,
  resident_peak_bytes,
  recycled_bytes,
  staging_bytes,
  stored_bytes,
  budget_bytes,  // in force: the job's acknowledgement of a Budget message
  allocations,
  frees,
  recycled_allocations,
  evictions,
  evicted_bytes,
  written_bytes,
  restores,
  restored_bytes,
  read_bytes,
  faults,
  stall_ns,
  prefetch_hits,
  prefetch_wasted,
  cancelled_evictions,
  pinned_refusals,
  checksum_failures,
  io_errors,
  lost_runs,
  pool_used_bytes,
  phase,         // enum Phase
  heartbeat_ns,  // CLOCK_MONOTONIC of the agent's last round
  pager,         // enum Pager
  mover,         // enum Mover
  io,            // enum Io
  cgroup_usage_bytes,
  cgroup_limit_bytes,
  zvc_content_bytes,
  zvc_frame_bytes,
  zvc_compress_ns,
  zvc_decompress_ns,
  zvc_exp_content_bytes,
  zvc_exp_frame_bytes,
  zvc_exp_compress_ns,
  zvc_exp_decompress_ns,
  rle_content_bytes,
  rle_frame_bytes,
  rle_compress_ns,
  rle_decompress_ns,
  csr8_content_bytes,
  csr8_frame_bytes,
  csr8_compress_ns,
  csr8_decompress_ns,
  refaulted_bytes,
  compressed_bytes,
  kept_bytes,
  fetched_bytes,
  demoted_bytes,
  steps,
  steps_ns,
  steps_stall_ns,
  departures,
  probes,
  probe_ns,
  plan_refusals,
  planned_steps,
  planned_out_bytes,
  planned_in_bytes,
  planned_late,
  unplanned_faults,
  marks,
  nvm_bytes,
  nvm_written_bytes,
  nvm_read_bytes,
  kernel_swap_ns,
  recent_drive_read_bytes,
  recent_drive_read_ns,
  recent_drive_write_bytes,
  recent_drive_write_ns,
  recent_nvm_read_bytes,
  recent_nvm_read_ns,
  recent_nvm_write_bytes,
  recent_nvm_write_ns,
  recent_compressed_read_bytes,
  recent_compressed_read_ns,
  recent_compressed_write_bytes,
  recent_compressed_write_ns,
  count
};
inline constexpr std::size_t stat_count = static_cast<std::size_t>(Stat::count);
inline constexpr Stat first_codec_stat = Stat::zvc_content_bytes;
inline constexpr Stat first_speed_stat = Stat::recent_drive_read_bytes;
// Of a tier that moves now, rather than of all that the job ever did.
constexpr bool is_speed(Stat stat) { return stat >= first_speed_stat && stat < Stat::count; }
// What the job counted, rather than what state its session is in.
constexpr bool is_counter(Stat stat) {
  return stat < Stat::phase || (stat >= first_codec_stat && stat < Stat::count);
}
inline constexpr std::size_t stat_slots = 128;
static_assert(stat_count <= stat_slots);

enum class Phase : std::uint64_t { unknown = 0, starting, running, quiescing, ending };
enum class Pager : std::uint64_t { unknown = 0, active, inactive, unavailable };
enum class Mover : std::uint64_t { unknown = 0, none, move, mremap, copy };
enum class Io : std::uint64_t { unknown = 0, none, io_uring, pread };

// "heap_live_bytes", ...; for out-of-range numbers "unknown". Static strings.
const char* name_of(Stat stat) noexcept;
// "active", "mremap", "io_uring", ... as terrace_get_status() says them; nullptr for unknown values.
const char* name_of(Pager pager) noexcept;
const char* name_of(Mover mover) noexcept;
const char* name_of(Io io) noexcept;
const char* name_of(Phase phase) noexcept;

// Single words, relaxed: a reader may see counters of slightly different times, never a torn one.
struct alignas(64) JobStats {
  std::array<Word, stat_slots> words;

  void set(Stat stat, std::uint64_t value) noexcept {
    words[static_cast<std::size_t>(stat)].store(value, std::memory_order_relaxed);
  }
  template <class Enum>
  void set_state(Stat stat, Enum value) noexcept {
    set(stat, static_cast<std::uint64_t>(value));
  }
  std::uint64_t get(Stat stat) const noexcept {
    return words[static_cast<std::size_t>(stat)].load(std::memory_order_relaxed);
  }
};
static_assert(sizeof(JobStats) == stat_slots * 8 && alignof(JobStats) == 64);

enum class EventKind : std::uint8_t {
  none = 0,
  alloc,
  free,
  fault,
  evict,
  restore,
  write_done,
  read_done,
  drop,    // a cached or read-ahead copy was given up
  cancel,  // an eviction taken back by a touch
  lost,    // a run whose bytes are gone: checksum or device
  io_error,
  pool_full,
  trimmed,
  fork,
  step,  // the program begins anew what it has repeated: `bytes` events long, of the kind that `address`
         // numbers
  count
};
const char* name_of(EventKind kind) noexcept;

inline constexpr std::uint8_t event_stalled = 1;    // fault: a thread waited for it
inline constexpr std::uint8_t event_predicted = 2;  // restore: was brought in before the touch

struct Event {
  std::uint64_t time_ns = 0;    // CLOCK_MONOTONIC
  std::uint64_t address = 0;    // of the block or the run
  std::uint64_t call_site = 0;  // return address of the allocation, 0 when not known
  std::uint64_t bytes = 0;
  std::uint32_t position = 0;  // filled in by the ring
  EventKind kind = EventKind::none;
  std::uint8_t flags = 0;
  std::uint16_t detail = 0;  // errno of io_error
};
static_assert(sizeof(Event) == 4 * 8 + 4 + 1 + 1 + 2);

// In the segment: this, then `capacity` slots of slot_words words each.
inline constexpr std::size_t slot_words = sizeof(Event) / 8;
inline constexpr std::uint64_t max_ring_capacity = std::uint64_t{1} << 14;

struct alignas(64) EventRing {
  Word head;  // events ever written; a hint to the reader, the producer keeps its own
  std::array<Word, 7> reserved;
};
static_assert(sizeof(EventRing) == 64);

constexpr std::uint64_t ring_bytes(std::uint64_t capacity) {
  return sizeof(EventRing) + capacity * sizeof(Event);
}

inline Word* slots_of(EventRing* ring) noexcept { return reinterpret_cast<Word*>(ring + 1); }
inline const Word* slots_of(const EventRing* ring) noexcept {
  return reinterpret_cast<const Word*>(ring + 1);
}

// The writing end. One thread at a time (the heap's lock).
class RingWriter {
 public:
  constexpr RingWriter() = default;
  // `slots` has `capacity` (a power of two) times slot_words words.
  constexpr RingWriter(EventRing* ring, Word* slots, std::uint64_t capacity) noexcept
      : ring_(ring), slots_(slots), mask_(capacity - 1) {}
  void push(const Event& event) noexcept;

 private:
  EventRing* ring_ = nullptr;
  Word* slots_ = nullptr;
  std::uint64_t mask_ = 0;
  std::uint64_t head_ = 0;
};

// The reading end: copies out, believes nothing. `ring` must have been checked to lie in the mapping.
class RingReader {
 public:
  RingReader() = default;
  RingReader(const EventRing* ring, std::uint64_t capacity) noexcept
      : ring_(ring), slots_(slots_of(ring)), capacity_(capacity) {}
  // Up to `limit` events, oldest first; returns how many. Losses are added to lost().
  std::size_t read(Event* out, std::size_t limit) noexcept;
  std::uint64_t lost() const noexcept { return lost_; }

 private:
  bool copy_slot(std::uint64_t index, Event* out) const noexcept;
  const EventRing* ring_ = nullptr;
  const Word* slots_ = nullptr;
  std::uint64_t capacity_ = 0;
  std::uint64_t tail_ = 0;
  std::uint64_t lost_ = 0;
};

// True when a structure of `bytes` at `offset` lies inside a segment and is aligned to 64.
constexpr bool fits(std::uint64_t offset, std::uint64_t bytes, std::uint64_t segment_bytes) {
  return offset % 64 == 0 && offset <= segment_bytes && bytes <= segment_bytes - offset;
}

}  // namespace terrace::wire
