// Transitions of the pager's state machine: how a run arrives and how it leaves.
//
// Each function takes one run from one state to the next and leaves lists, pages and counts agreeing with it.
// Around it: pager_faults.cpp (what a touch sets off), pager_blocks.cpp (blocks come and go),
// pager_frames.cpp (the memory that transitions use), pager_accounts.cpp (what is told of it),
// pager_fork.cpp, transfers.cpp (to the tier and back), policy.cpp (which run, and when).
#include "liballoc/pager.h"

#include <algorithm>
#include <cstring>

#include "liballoc/message.h"
#include "liballoc/os.h"

namespace terrace::liballoc {
namespace {

// Under 64 MiB the codec's buffers are better used to page with.
constexpr std::uint64_t least_runs_to_compress = 32;
constexpr std::uint64_t least_runs_by_default = std::uint64_t{100} * RunCodec::memory_runs;

constexpr std::uint64_t frames_share = 4;
constexpr std::uint32_t least_frames = 64;

constexpr std::uint64_t put_pause_ns = 10'000'000;

}  // namespace

int Pager::initialise(std::byte* base, std::size_t bytes, std::uint32_t most_blocks, BlockQueue* queue,
                      FreeRuns* free_runs) {
  base_ = base;
  run_count_ = static_cast<std::uint32_t>(bytes / run_bytes);
  queue_ = queue;
  free_runs_ = free_runs;
  auto* runs =
      static_cast<Run*>(os::map_anonymous(std::size_t{run_count_} * sizeof(Run), PROT_READ | PROT_WRITE));
  pending_ = static_cast<std::uint32_t*>(
      os::map_anonymous(std::size_t{run_count_} * sizeof(std::uint32_t), PROT_READ | PROT_WRITE));
  if (runs == nullptr || pending_ == nullptr) return ENOMEM;
  if (blocks_.initialise(most_blocks) != 0 || pages_.initialise(run_count_) != 0) return ENOMEM;
  if (ahead_.initialise(run_count_) != 0) return ENOMEM;
  runs_ = runs;
  for (RunList* list : lists()) list->attach(runs_);
  return forks_.initialise();
}

int Pager::activate(Mover* mover, tiers::Tier* tier, Client* client, std::uint64_t budget_bytes,
                    Compression compression) {
  mover_ = mover;
  tier_ = tier;
  client_ = client;
  // Frames are address space: as many as the machine could ever back, and what the budget allows at most. Of
  // what a limit allows, the heap has taken half.
  const auto pages = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES));
  const std::uint64_t allowed = os::mapping_limit() / frames_share / run_bytes;
  const auto frames = static_cast<std::uint32_t>(std::min(pages * os::page_bytes / run_bytes + 64, allowed));
  if (frames < least_frames) return ENOMEM;
  if (const int error = staging_.initialise(frames, mover); error != 0) return error;
  piece_buffers_ = static_cast<std::byte*>(os::map_anonymous(
      std::size_t{most_pieces} * Reach::longest_piece * os::page_bytes, PROT_READ | PROT_WRITE));
  if (piece_buffers_ == nullptr) return ENOMEM;
  compression_ = compression;
  const bool is_asked_for = compression > Compression::off && compression < Compression::by_budget;
  if (is_asked_for && budget_bytes / run_bytes < least_runs_to_compress)
    Message(Severity::warning) << "TERRACE_COMPRESS: a budget under 64 MiB leaves no room for it; nothing is "
                                  "compressed until it grows";
  mode_ = Mode::dormant;
  set_budget(budget_bytes);
  return 0;
}

void Pager::set_budget(std::uint64_t bytes) {
  budget_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes / run_bytes, run_count_));
  fit_codec(bytes / run_bytes);
  budget_ -= std::min(budget_ - std::min(budget_, 1U), codec_.taken_runs());
  asked_budget_ = budget_;
}

// The codec's memory is a part of the budget, so each budget says whether it works: a process that joins a
// job begins with little and is granted more, and what is granted is taken back for others.
void Pager::fit_codec(std::uint64_t runs) {
  const bool by_default = compression_ == Compression::by_budget;
  const bool has_room = runs >= (by_default ? least_runs_by_default : least_runs_to_compress);
  const Compression wanted = by_default ? Compression::automatic : compression_;
  if (codec_.use(has_room ? wanted : Compression::off) == 0) return;
  Message(Severity::warning) << "no memory for compressing; nothing is compressed";
  compression_ = Compression::off;
}

void Pager::set_pool_limit(std::uint64_t bytes) {
  pool_limit_ = bytes;
  tier_->set_limit(bytes);
}

// ---- lists and states -----------------------------------------------------------------------------------

const RunList* Pager::list_of(const Run& r) const {
  switch (r.state) {
    case RunState::resident:
      if (r.live == 0) return &recycled_;
      return r.pins != 0 ? nullptr : r.streamed ? &streamed_ : &idle_;
    case RunState::staged:
      return r.stuck ? nullptr : r.held ? &held_ : &staged_;
    case RunState::cached:
      return r.from_read ? &loaded_ : &cached_;
    case RunState::stored:
      return &stored_;
    case RunState::empty:
    case RunState::writing:
    case RunState::reading:
    case RunState::lost:
      break;
  }
  return nullptr;
}

RunList* Pager::list_of(const Run& r) {
  return const_cast<RunList*>(static_cast<const Pager*>(this)->list_of(r));
}

void Pager::enlist(std::uint32_t n) {
  Run& r = runs_[n];
  r.arrival = arrivals_;
  RunList* list = list_of(r);
  if (list == nullptr) return;
  r.listed_pages =
      r.frame == none ? std::uint16_t{0} : static_cast<std::uint16_t>(staging_.memory_of(r.frame));
  if (list == &cached_) cached_pages_ += r.listed_pages;
  if (list == &held_) held_pages_ += r.listed_pages;
  if (list != &idle_ || !r.cold) return list->push_back(n);
  r.arrival -= budget_;  // as if it had been idle for long
  list->push_front(n);
}

// From the list that it is on, whatever its state has become since.
void Pager::delist(std::uint32_t n) {
  const Run& r = runs_[n];
  if (r.list == nullptr) return;
  if (r.list == &cached_) cached_pages_ -= r.listed_pages;
  if (r.list == &held_) held_pages_ -= r.listed_pages;
  r.list->remove(n);
}

void Pager::become(std::uint32_t n, RunState state) {
  Run& r = runs_[n];
  delist(n);
  data_runs_ -= has_data(r) ? 1 : 0;
  r.state = state;
  data_runs_ += has_data(r) ? 1 : 0;
  enlist(n);
}

// What a run is that has no frame, and no transfer but of pieces, by where its pages are.
void Pager::settle_state(std::uint32_t n) {
  Run& r = runs_[n];
  const Pages& p = pages_[n];
  const bool is_empty = p.are_nowhere() && r.pieces == 0;
  if (is_empty) {
    release_slot(r);
    r.zero_fill = true;
  }
  data_runs_ -= has_data(r) ? 1 : 0;
  r.state = is_empty ? RunState::empty : p.in_place.is_empty() ? RunState::stored : RunState::resident;
  data_runs_ += has_data(r) ? 1 : 0;
  enlist(n);
}

// ---- arriving -------------------------------------------------------------------------------------------

void Pager::settle(std::uint32_t n) {
  Run& r = runs_[n];
  if (r.waiting) counts_.stall_ns += os::now_ns() - r.wait_since_ns;
  r.waiting = false;
}

// Puts memory under an empty run. False: there is none to be had now, the run waits in line.
bool Pager::back(std::uint32_t n) {
  Run& r = runs_[n];
  const std::uint32_t frame = take_frame(true);
  if (frame == none) {
    outgrown_ = true;
    enqueue(n);
    return false;
  }
  if (r.zero_fill) std::memset(staging_.address(frame), 0, run_bytes);
  r.zero_fill = false;
  r.frame = frame;
  pages_[n].in_frame = PageSet::all();
  return put_back(n);
}

// Puts a frame's pages under their address: the end of every way back. All at once where the run has none of
// its pages and the frame all of them, else one by one.
bool Pager::put_back(std::uint32_t n) {
  Run& r = runs_[n];
  Pages& p = pages_[n];
  if (!p.in_place.is_empty() || !p.in_frame.is_all()) return put_back_pages(n, whole_run);
  bool keeps_memory = false;
  const int error = mover_->put(staging_.address(r.frame), run_address(n), &keeps_memory);
  if (error != 0) {
    error == ENOTRECOVERABLE ? lose(n, "its pages cannot be put back", EIO) : keep_in_frame(n, error);
    return false;
  }
  delist(n);
  unstick(r);
  --used_frames_;
  r.small = keeps_memory || staging_.is_small(r.frame);
  // A copy gave the run memory of its own: the frame's goes.
  if (keeps_memory) {
    gain(pages_per_run);
    lose_memory(staging_.discard(r.frame));
  } else {
    staging_.give_absent(r.frame);
  }
  p.in_place = p.in_frame;
  p.in_frame = PageSet{};
  r.frame = none;
  r.from_read = r.page_out = r.may_have_holes = r.held = r.scattered = false;
  r.came = ++arrivals_;
  settle_state(n);
  settle(n);
  return true;
}

// Some pages of a frame go back, and the frame keeps its memory until it has done its service. Whoever waits
// for one that the kernel refuses asks again.
bool Pager::put_back_pages(std::uint32_t n, PageRange range) {
  Run& r = runs_[n];
  Pages& p = pages_[n];
  const PageSet wanted = PageSet::of(range) & p.in_frame;
  bool all = true;
  delist(n);  // room is not to be made of its own frame
  for (PageRange part = wanted.next(0); part.count() > 0 && all; part = wanted.next(part.end)) {
    if (range.count() < pages_per_run) make_room(part.count());
    std::size_t done = 0;
    all = mover_->put_pages(staging_.address(r.frame) + part.offset(), run_address(n) + part.offset(),
                            part.bytes(), &done) == 0;
    const PageSet came =
        PageSet::of({part.first, part.first + static_cast<std::uint32_t>(done / os::page_bytes)});
    gain((came - p.in_place).count());
    p.in_place |= came;
    p.in_frame -= came;
  }
  if (!all) mover_->wake(run_address(n), run_bytes);
  r.small = true;
  if (!p.in_frame.is_empty() || r.in_flight) {
    enlist(n);
  } else {
    unstick(r);
    release_frame(r.frame);
    r.frame = none;
    r.from_read = r.page_out = r.held = false;
    r.came = ++arrivals_;
    settle_state(n);
  }
  settle(n);
  return all;
}

// The kernel refused, for want of memory most likely. All bytes are in the frame, and there they wait. What
// the tier has of them is given up: the program may have changed pages that were put back for a moment.
void Pager::keep_in_frame(std::uint32_t n, int error) {
  Run& r = runs_[n];
  delist(n);
  if (r.live == 0) {  // a touch of freed memory
    release_frame(r.frame);
    pages_[n] = Pages{};
    r.frame = none;
    enlist(n);
    return enqueue(n);
  }
  stuck_runs_ += r.stuck ? 0 : 1;
  r.stuck = true;
  data_runs_ -= has_data(r) ? 1 : 0;
  r.state = RunState::staged;
  data_runs_ += 1;
  r.from_read = r.held = false;
  pages_[n].stored = PageSet{};
  if (!r.in_flight) release_slot(r);
  enqueue(n);
  retry_put_ns_ = os::now_ns() + put_pause_ns;
  if (stuck_told_) return;
  stuck_told_ = true;
  Message m(Severity::warning);
  m << "the kernel does not put 2 MiB back at " << static_cast<const void*>(run_address(n)) << ", ";
  m.error(error) << "; it stays in DRAM and is tried again, who touches it waits; is there memory left?";
}

void Pager::unstick(Run& r) {
  stuck_runs_ -= r.stuck ? 1 : 0;
  r.stuck = false;
}

// ---- leaving --------------------------------------------------------------------------------------------

// Not now: to the young end of the queue, and so what is cold, which stays so.
bool Pager::spare(std::uint32_t n) {
  Run& r = runs_[n];
  if (RunList* list = r.list; list != nullptr) {
    list->remove(n);
    r.arrival = arrivals_;
    list->push_back(n);
  }
  return false;
}

// Pages that are not there any more, though nobody told us: a bare system call of the program's.
bool Pager::miss(std::uint32_t n, const PageSet& gone) {
  if (gone.is_empty()) return false;
  lose_memory(gone.count());
  pages_[n].in_place -= gone;
  pages_[n].in_frame -= gone;
  return !runs_[n].may_have_holes;
}

// Takes the pages that are in place out to a frame. What is on the tier stays there.
bool Pager::stage(std::uint32_t n) {
  Run& r = runs_[n];
  Pages& p = pages_[n];
  PageSet there;
  if (r.in_flight || r.pieces > 0 || r.queued) return spare(n);
  if (r.may_have_holes && mover_->present(run_address(n), &there)) miss(n, p.in_place - there);
  const std::uint32_t frame = p.in_place.is_empty() ? none : staging_.take_absent();
  if (frame == none) return spare(n);
  PageSet taken = PageSet::all();
  const int error = p.in_place.is_all()
                        ? mover_->take(run_address(n), staging_.address(frame), false)
                        : mover_->take_pages(run_address(n), staging_.address(frame), p.in_place, &taken);
  if (error != 0) {
    staging_.give_absent(frame);
    counts_.pinned_refusals += error == EBUSY ? 1 : 0;
    return spare(n);
  }
  delist(n);
  const PageSet gone = p.in_place - taken;
  p.in_frame = taken;
  p.in_place = PageSet{};
  staging_.note_memory(frame, taken.count(), r.small || !taken.is_all());
  ++used_frames_;
  r.frame = frame;
  r.streamed = false;
  r.held = r.scattered && !r.page_out;
  r.state = RunState::staged;
  enlist(n);
  if (miss(n, gone)) {
    lose(n, "a page of it has vanished", EFAULT);
    return false;
  }
  // A thread may have freed the block just before and written to the next one there already: those bytes are
  // not what they seem. Back they go, until what happened is known.
  if (queue_->mentions(n * granules_per_run, granules_per_run)) {
    put_back(n);
    follow_blocks();
    return false;
  }
  ++counts_.evictions;
  counts_.evicted_bytes += std::uint64_t{taken.count()} * os::page_bytes;
  tell(wire::EventKind::evict, n, run_bytes);
  return true;
}

bool Pager::unstage(std::uint32_t n) {
  if (!put_back(n)) return false;
  ++counts_.cancelled_evictions;
  tell(wire::EventKind::cancel, n, run_bytes);
  return true;
}

// Touched while its write is under way, which goes on. The device reads the frame, so the run gets a copy of
// it, unless what is written is a compressed copy already.
void Pager::rescue(std::uint32_t n) {
  Run& r = runs_[n];
  Operation* write = operation_of(n);
  if (write == nullptr || write->buffer != RunCodec::no_buffer || !pages_[n].in_frame.is_all() ||
      !pages_[n].in_place.is_empty()) {
    unstage(n);
    return;
  }
  const std::uint32_t frame = take_frame(true);
  if (frame == none) return;  // the end of the write puts it back
  std::memcpy(staging_.address(frame), staging_.address(r.frame), run_bytes);
  write->owns_frame = true;
  r.frame = frame;
  unstage(n);
}

Pager::Operation* Pager::operation_of(std::uint32_t n) {
  for (Operation& op : operations_)
    if (op.busy && op.run == n && op.kind != Operation::Kind::piece) return &op;
  return nullptr;
}

void Pager::release_extent(const tiers::Extent& extent, std::uint32_t epoch) {
  if (mode_ == Mode::paging && forks_.may_release(extent, epoch)) give_back(extent);
}

void Pager::give_back(const tiers::Extent& extent) {
  tier_->release(extent);
  const bool was_full = pool_full_;
  pool_full_ = false;
  if (was_full) return_to_budget();
}

void Pager::release_slot(Run& r) {
  if (r.has_slot) release_extent({r.slot_offset, r.slot_bytes}, r.slot_epoch);
  r.has_slot = false;
}

void Pager::lose(std::uint32_t n, const char* why, int error) {
  Run& r = runs_[n];
  delist(n);
  unstick(r);
  let_go_of_transfers(n, false);
  if (r.frame != none) {
    lose_memory(staging_.discard(r.frame));  // it may have been left in part
    --used_frames_;
  }
  lose_memory(pages_[n].in_place.count());
  pages_[n] = Pages{};
  r.frame = none;
  // The extent is not trusted again: it stays reserved as long as the process lives, so that no other data is
  // put where some was lost. It still takes up disk, and therefore counts as used.
  r.has_slot = false;
  data_runs_ -= has_data(r) ? 1 : 0;
  r.state = RunState::lost;
  data_runs_ += has_data(r) ? 1 : 0;
  ++counts_.lost_runs;
  tell(wire::EventKind::lost, n, run_bytes);
  report_block(n, why, error);
  // Last: who waits for it meets SIGBUS from here on, which may end the process.
  mover_->poison(run_address(n));
  settle(n);
}

}  // namespace terrace::liballoc
