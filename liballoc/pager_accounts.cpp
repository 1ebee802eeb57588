// Accounts: what the pager tells of itself, to the statistics, to the daemon's event ring, and to the
// person whose data was lost. Nothing here changes a run.
//
// check_invariants() counts the run table anew and compares with the counters that every transition keeps;
// the agent calls it in builds with TERRACE_CHECK_INVARIANTS.
#include <algorithm>
#include <cstdlib>

#include "liballoc/message.h"
#include "liballoc/os.h"
#include "liballoc/pager.h"

namespace terrace::liballoc {

bool Pager::is_quiet() const {
  return staged_.is_empty() && writes_ == 0 && reads_ == 0 && pieces_ == 0 && pending_count_ == 0 &&
         !wants_eviction();
}

void Pager::fill(terrace_statistics* out) const {
  const std::size_t size = out->size;
  *out = counts_;
  out->size = size;
  out->resident_bytes = is_paging() ? backed_bytes() : estimate_;
  out->recycled_bytes = (std::uint64_t{recycled_.size()} + staging_.free_frames()) * run_bytes;
  out->staging_bytes = std::uint64_t{used_frames_} * run_bytes;
  out->stored_bytes = std::uint64_t{stored_.size()} * run_bytes;
  out->budget_bytes = budget_bytes();
  std::copy_n(codec_.statistics(), TERRACE_CODECS, out->codecs);
}

void Pager::check_invariants() const {
  if (!is_paging()) return;
  std::uint64_t pages = std::uint64_t{staging_.free_frames()} * pages_per_run;
  std::uint32_t frames = 0;
  std::uint32_t data = 0;
  for (std::uint32_t n = 0; n < top_run_; ++n) {
    const Run& r = runs_[n];
    const Pages& p = pages_[n];
    const bool has_frame = r.state == RunState::staged || r.state == RunState::cached ||
                           r.state == RunState::writing || r.state == RunState::reading;
    const bool is_resident = r.state == RunState::resident;
    data += has_data(r) ? 1 : 0;
    pages += p.in_place.count();
    if (has_frame) {
      ++frames;
      if (r.frame == none) std::abort();
      pages += staging_.memory_of(r.frame);
    }
    const bool agrees = r.list == list_of(r) && (p.in_place & p.in_frame).is_empty() &&
                        (has_frame || p.in_frame.is_empty()) && (!is_resident || !p.in_place.is_empty()) &&
                        (p.stored.is_empty() || r.has_slot || r.in_flight) &&
                        (r.state != RunState::stored || (p.in_place.is_empty() && !p.stored.is_empty()));
    if (agrees) continue;
    Message(Severity::error) << "pager invariant broken: run " << std::uint64_t{n} << " in state "
                             << static_cast<std::uint64_t>(r.state)
                             << (r.list == list_of(r) ? " has " : ", on another state's list, has ")
                             << std::uint64_t{p.in_place.count()} << " pages in place, "
                             << std::uint64_t{p.in_frame.count()} << " in a frame, "
                             << std::uint64_t{p.stored.count()} << " stored";
    std::abort();
  }
  for (const Operation& op : operations_) {
    if (!op.busy || !op.owns_frame) continue;
    ++frames;
    pages += staging_.memory_of(op.frame);
  }
  if (frames == used_frames_ && pages == backed_pages_ && data == data_runs_) return;
  Message(Severity::error) << "pager invariant broken: frames " << std::uint64_t{frames} << "/"
                           << std::uint64_t{used_frames_} << ", free "
                           << std::uint64_t{staging_.free_frames()} << ", pages " << pages << "/"
                           << backed_pages_ << ", data " << std::uint64_t{data} << "/"
                           << std::uint64_t{data_runs_};
  std::abort();
}

void Pager::tell(wire::EventKind kind, std::uint32_t n, std::uint64_t bytes) {
  if (client_ == nullptr) return;
  client_->push({.time_ns = os::now_ns(),
                 .address = reinterpret_cast<std::uintptr_t>(run_address(n)),
                 .call_site = runs_[n].block != 0 ? blocks_[runs_[n].block].call_site : 0,
                 .bytes = bytes,
                 .kind = kind});
}

void Pager::report_block(std::uint32_t n, const char* what, int error) {
  const std::uint32_t id = runs_[n].block;
  Message m(Severity::error);
  m << "lost 2 MiB at " << static_cast<const void*>(run_address(n));
  if (id != 0) {
    const KnownBlock& b = blocks_[id];
    m << " of the allocation of ";
    m.bytes(std::uint64_t{b.granules} * granule_bytes)
        << " at " << static_cast<const void*>(base_ + std::size_t{b.first} * granule_bytes);
    m << " made from " << reinterpret_cast<const void*>(b.call_site);
  }
  m << ": " << what << ", ";
  m.error(error) << "; touching it raises SIGBUS";
}

void Pager::estimate_resident(std::uint64_t bytes) {
  estimate_ = bytes;
  counts_.resident_peak_bytes = std::max(counts_.resident_peak_bytes, bytes);
}

}  // namespace terrace::liballoc
