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
  return staged_.is_empty() && writes_ == 0 && reads_ == 0 && pending_count_ == 0 && !wants_eviction();
}

void Pager::fill(terrace_statistics* out) const {
  const std::size_t size = out->size;
  *out = counts_;
  out->size = size;
  out->resident_bytes = backed_bytes();
  out->recycled_bytes = (std::uint64_t{recycled_.size()} + staging_.free_frames()) * run_bytes;
  out->staging_bytes = std::uint64_t{used_frames_} * run_bytes;
  out->stored_bytes = std::uint64_t{stored_.size()} * run_bytes;
  out->budget_bytes = budget_bytes();
  std::copy_n(codec_.statistics(), TERRACE_CODECS, out->codecs);
}

void Pager::check_invariants() const {
  std::uint32_t resident = 0;
  std::uint32_t frames = 0;
  std::uint32_t data = 0;
  for (std::uint32_t n = 0; n * granules_per_run < space_->top(); ++n) {
    const Run& r = runs_[n];
    resident += r.state == RunState::resident ? 1 : 0;
    const bool needs_frame = r.state == RunState::staged || r.state == RunState::cached;
    frames += needs_frame ? 1 : 0;
    data += r.live > 0 && r.state != RunState::empty ? 1 : 0;
    if (needs_frame && r.frame == none) std::abort();
  }
  for (const Operation& op : operations_) frames += op.busy && op.frame != none ? 1 : 0;
  const bool frames_agree = frames == used_frames_;
  const bool backed_agrees = backed_ == resident + used_frames_ + staging_.free_frames();
  if (frames_agree && backed_agrees && data == data_runs_) return;
  Message(Severity::error) << "pager invariant broken: resident " << std::uint64_t{resident} << ", frames "
                           << std::uint64_t{frames} << "/" << std::uint64_t{used_frames_} << ", free "
                           << std::uint64_t{staging_.free_frames()} << ", backed " << std::uint64_t{backed_}
                           << ", data " << std::uint64_t{data} << "/" << std::uint64_t{data_runs_};
  std::abort();
}

void Pager::tell(wire::EventKind kind, std::uint32_t n, std::uint64_t bytes) {
  if (client_ == nullptr) return;
  client_->push({.time_ns = os::now_ns(),
                 .address = reinterpret_cast<std::uintptr_t>(run_address(n)),
                 .call_site = runs_[n].block != 0 ? space_->block(runs_[n].block).call_site : 0,
                 .bytes = bytes,
                 .kind = kind});
}

void Pager::report_block(std::uint32_t n, const char* what, int error) {
  const std::uint32_t id = runs_[n].block != 0 ? runs_[n].block : space_->live_block_covering(run_address(n));
  Message m(Severity::error);
  m << "lost 2 MiB at " << static_cast<const void*>(run_address(n));
  if (id != 0) {
    m << " of the allocation of ";
    m.bytes(space_->capacity(id)) << " at " << static_cast<const void*>(space_->address(id));
    m << " made from " << reinterpret_cast<const void*>(space_->block(id).call_site);
  }
  m << ": " << what << ", ";
  m.error(error) << "; touching it raises SIGBUS";
}

}  // namespace terrace::liballoc
