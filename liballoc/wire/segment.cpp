// The two ends of the event ring, and the names of counters and events. Memory order of a slot:
//
//   writer: word 4 = 0 ─ words 0..3, release ─ word 4 = (position, kind, flags, detail), release
//   reader: word 4, acquire ─ words 0..3, acquire ─ word 4 again: the same, or the copy is thrown away
//
// which is Boehm's seqlock ("Can seqlocks get along with programming language memory models?", 2012)
// with the position as the sequence number, and ordered accesses instead of fences (which
// ThreadSanitizer cannot follow).
#include "liballoc/wire/segment.h"

#include <cstring>
#include <iterator>

namespace terrace::wire {
namespace {

constexpr std::size_t last_word = slot_words - 1;

std::uint32_t position_of(std::uint64_t index) noexcept { return static_cast<std::uint32_t>(index + 1); }

constexpr const char* stat_names[] = {"heap_live_bytes",
                                      "heap_peak_bytes",
                                      "resident_bytes",
                                      "resident_peak_bytes",
                                      "recycled_bytes",
                                      "staging_bytes",
                                      "stored_bytes",
                                      "budget_bytes",
                                      "allocations",
                                      "frees",
                                      "recycled_allocations",
                                      "evictions",
                                      "evicted_bytes",
                                      "written_bytes",
                                      "restores",
                                      "restored_bytes",
                                      "read_bytes",
                                      "faults",
                                      "stall_ns",
                                      "prefetch_hits",
                                      "prefetch_wasted",
                                      "cancelled_evictions",
                                      "pinned_refusals",
                                      "checksum_failures",
                                      "io_errors",
                                      "lost_runs",
                                      "pool_used_bytes",
                                      "phase",
                                      "heartbeat_ns",
                                      "pager",
                                      "mover",
                                      "io",
                                      "cgroup_usage_bytes",
                                      "cgroup_limit_bytes",
                                      "zvc_content_bytes",
                                      "zvc_frame_bytes",
                                      "zvc_compress_ns",
                                      "zvc_decompress_ns",
                                      "zvc_exp_content_bytes",
                                      "zvc_exp_frame_bytes",
                                      "zvc_exp_compress_ns",
                                      "zvc_exp_decompress_ns",
                                      "rle_content_bytes",
                                      "rle_frame_bytes",
                                      "rle_compress_ns",
                                      "rle_decompress_ns",
                                      "csr8_content_bytes",
                                      "csr8_frame_bytes",
                                      "csr8_compress_ns",
                                      "csr8_decompress_ns",
                                      "refaulted_bytes",
                                      "compressed_bytes",
                                      "kept_bytes",
                                      "fetched_bytes",
                                      "demoted_bytes",
                                      "steps",
                                      "steps_ns",
                                      "steps_stall_ns",
                                      "departures",
                                      "probes",
                                      "probe_ns",
                                      "plan_refusals",
                                      "planned_steps",
                                      "planned_out_bytes",
                                      "planned_in_bytes",
                                      "planned_late",
                                      "unplanned_faults",
                                      "marks",
                                      "nvm_bytes",
                                      "nvm_written_bytes",
                                      "nvm_read_bytes",
                                      "kernel_swap_ns",
                                      "recent_drive_read_bytes",
                                      "recent_drive_read_ns",
                                      "recent_drive_write_bytes",
                                      "recent_drive_write_ns",
                                      "recent_nvm_read_bytes",
                                      "recent_nvm_read_ns",
                                      "recent_nvm_write_bytes",
                                      "recent_nvm_write_ns",
                                      "recent_compressed_read_bytes",
                                      "recent_compressed_read_ns",
                                      "recent_compressed_write_bytes",
                                      "recent_compressed_write_ns"};
static_assert(std::size(stat_names) == stat_count);

constexpr const char* event_names[] = {"none",       "alloc",     "free", "fault",  "evict", "restore",
                                       "write_done", "read_done", "drop", "cancel", "lost",  "io_error",
                                       "pool_full",  "trimmed",   "fork", "step"};
static_assert(std::size(event_names) == static_cast<std::size_t>(EventKind::count));

}  // namespace

void RingWriter::push(const Event& event) noexcept {
  Event stamped = event;
  stamped.position = position_of(head_);
  std::uint64_t words[slot_words];
  std::memcpy(words, &stamped, sizeof words);
  Word* slot = slots_ + (head_ & mask_) * slot_words;
  slot[last_word].store(0, std::memory_order_relaxed);
  for (std::size_t i = 0; i < last_word; ++i) slot[i].store(words[i], std::memory_order_release);
  slot[last_word].store(words[last_word], std::memory_order_release);
  ring_->head.store(++head_, std::memory_order_release);
}

bool RingReader::copy_slot(std::uint64_t index, Event* out) const noexcept {
  const Word* slot = slots_ + (index & (capacity_ - 1)) * slot_words;
  std::uint64_t words[slot_words];
  words[last_word] = slot[last_word].load(std::memory_order_acquire);
  for (std::size_t i = 0; i < last_word; ++i) words[i] = slot[i].load(std::memory_order_acquire);
  if (slot[last_word].load(std::memory_order_relaxed) != words[last_word]) return false;
  Event event;
  std::memcpy(static_cast<void*>(&event), words, sizeof event);
  if (event.position != position_of(index) || event.kind == EventKind::none || event.kind >= EventKind::count)
    return false;
  *out = event;
  return true;
}

std::size_t RingReader::read(Event* out, std::size_t limit) noexcept {
  if (ring_ == nullptr) return 0;
  const std::uint64_t head = ring_->head.load(std::memory_order_acquire);
  if (head < tail_) {  // never by an honest writer: begin again at what it claims
    tail_ = head;
    ++lost_;
  }
  if (head - tail_ > capacity_) {
    lost_ += head - tail_ - capacity_;
    tail_ = head - capacity_;
  }
  std::size_t filled = 0;
  for (; tail_ < head && filled < limit; ++tail_) {
    if (copy_slot(tail_, out + filled))
      ++filled;
    else
      ++lost_;
  }
  return filled;
}

const char* name_of(Stat stat) noexcept {
  return stat < Stat::count ? stat_names[static_cast<std::size_t>(stat)] : "unknown";
}

const char* name_of(EventKind kind) noexcept {
  return kind < EventKind::count ? event_names[static_cast<std::size_t>(kind)] : "unknown";
}

const char* name_of(Pager pager) noexcept {
  switch (pager) {
    case Pager::active:
      return "active";
    case Pager::inactive:
      return "inactive";
    case Pager::unavailable:
      return "unavailable";
    case Pager::unknown:
      break;
  }
  return nullptr;
}

const char* name_of(Mover mover) noexcept {
  switch (mover) {
    case Mover::none:
      return "none";
    case Mover::move:
      return "move";
    case Mover::mremap:
      return "mremap";
    case Mover::copy:
      return "copy";
    case Mover::unknown:
      break;
  }
  return nullptr;
}

const char* name_of(Io io) noexcept {
  switch (io) {
    case Io::none:
      return "none";
    case Io::io_uring:
      return "io_uring";
    case Io::pread:
      return "pread";
    case Io::unknown:
      break;
  }
  return nullptr;
}

const char* name_of(Phase phase) noexcept {
  switch (phase) {
    case Phase::starting:
      return "starting";
    case Phase::running:
      return "running";
    case Phase::quiescing:
      return "quiescing";
    case Phase::ending:
      return "ending";
    case Phase::unknown:
      break;
  }
  return nullptr;
}

}  // namespace terrace::wire
