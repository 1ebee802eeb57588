#include "liballoc/mover.h"

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "liballoc/address_space.h"
#include "liballoc/os.h"
#include "liballoc/own_descriptors.h"

// Newer than Debian 12's kernel headers; from include/uapi/linux/userfaultfd.h of Linux 6.8.
#ifndef UFFDIO_MOVE
struct uffdio_move {
  __u64 dst;
  __u64 src;
  __u64 len;
  __u64 mode;
  __s64 move;
};
#define UFFDIO_MOVE _IOWR(UFFDIO, 0x05, struct uffdio_move)
#define UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES (1ULL << 1)
#define UFFD_FEATURE_MOVE (1ULL << 16)
#endif
#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif

namespace terrace::liballoc {
namespace {

constexpr int busy_retries = 16;
constexpr int most_retries = 64;  // EAGAIN means another thread of this process is changing its mappings

std::uint64_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

int control(int fd, unsigned long request, void* argument) {
  return os::error_of(syscall(SYS_ioctl, fd, request, argument));
}

// What MOVE and COPY answer for a range that is not in one mapping.
bool may_cross_a_cut(int error) { return error == EINVAL || error == ENOENT; }

std::size_t half_of(std::size_t piece) {
  return std::max(piece / 2 / os::page_bytes, std::size_t{1}) * os::page_bytes;
}

}  // namespace

int Mover::open_descriptor(int device_fd) {
  constexpr int flags = O_CLOEXEC | O_NONBLOCK;
  if (device_fd >= 0) {
    fd_ = static_cast<int>(syscall(SYS_ioctl, device_fd, USERFAULTFD_IOC_NEW, flags));
    if (fd_ >= 0) return 0;
  }
  const int own = static_cast<int>(syscall(SYS_openat, AT_FDCWD, "/dev/userfaultfd", O_RDWR | O_CLOEXEC));
  if (own >= 0) {
    fd_ = static_cast<int>(syscall(SYS_ioctl, own, USERFAULTFD_IOC_NEW, flags));
    os::close_fd(own);
    if (fd_ >= 0) return 0;
  }
  fd_ = static_cast<int>(syscall(SYS_userfaultfd, flags));
  return fd_ >= 0 ? 0 : errno;
}

int Mover::choose(MoverKind wanted, std::uint64_t features) {
  const bool can_move = (features & UFFD_FEATURE_MOVE) != 0;
  if (wanted == MoverKind::move && !can_move) return ENOTSUP;
  kind_ = wanted != MoverKind::automatic ? wanted : can_move ? MoverKind::move : MoverKind::mremap;
  return 0;
}

int Mover::open(MoverKind wanted, int device_fd) {
  if (const int error = open_descriptor(device_fd); error != 0) return error;
  fd_ = keep_descriptor(fd_);
  // A descriptor takes one UFFDIO_API call that succeeds; its answer says what this kernel offers. MOVE needs
  // no enabling, write protection does not either.
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_EXACT_ADDRESS;
  int error = control(fd_, UFFDIO_API, &api);
  if (error == EINVAL) {  // before Linux 5.18: a fault tells its page only
    api = {};
    api.api = UFFD_API;
    error = control(fd_, UFFDIO_API, &api);
  }
  if (error == 0) error = choose(wanted, api.features);
  if (error == 0) {
    // Two runs of address space give one aligned run.
    auto* area = static_cast<std::byte*>(os::map_anonymous(2 * run_bytes, PROT_READ | PROT_WRITE));
    if (area == nullptr) error = ENOMEM;
    if (area != nullptr) {
      nursery_ = area + (run_bytes - number(area) % run_bytes) % run_bytes;
      unlock();  // after mlockall(MCL_FUTURE) it was born locked
      os::advise(nursery_, run_bytes, MADV_HUGEPAGE);
      os::advise(nursery_, run_bytes, MADV_DONTFORK);
    }
  }
  if (error != 0) {
    close();
    return error;
  }
  pagemap_fd_ = keep_descriptor(
      static_cast<int>(syscall(SYS_openat, AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC)));
  poison_fd_ =
      keep_descriptor(static_cast<int>(syscall(SYS_memfd_create, "terrace-lost", 1U /* MFD_CLOEXEC */)));
  return 0;
}

void Mover::close() {
  for (int* fd : {&fd_, &pagemap_fd_, &poison_fd_}) {
    close_kept(*fd);
    *fd = -1;
  }
  kind_ = MoverKind::automatic;
  needs_registration_ = false;
  nursery_ = frames_ = nullptr;
  frames_bytes_ = 0;
}

const char* Mover::name() const {
  switch (kind_) {
    case MoverKind::move:
      return "move";
    case MoverKind::mremap:
      return "mremap";
    case MoverKind::automatic:
      break;
  }
  return "none";
}

int Mover::register_range(std::byte* address, std::size_t bytes) {
  uffdio_register range{};
  range.range = {number(address), bytes};
  range.mode = UFFDIO_REGISTER_MODE_MISSING;
  return control(fd_, UFFDIO_REGISTER, &range);
}

int Mover::watch(std::byte* address, std::size_t bytes) { return register_range(address, bytes); }

// A mapping that is moved joins a neighbour that is like it, and then loses its registration with all that it
// joined (Linux 6.18 at least: mremap_userfaultfd_prep() clears the mapping that copy_vma() gave it, whatever
// that is now). So what is moved back is not registered while it moves, and what was moved out is registered
// with all frames.
int Mover::adopt_all_frames() { return register_range(frames_, frames_bytes_); }

int Mover::unwatch(std::byte* address, std::size_t bytes) {
  uffdio_range range{number(address), bytes};
  return control(fd_, UFFDIO_UNREGISTER, &range);
}

int Mover::adopt_frames(std::byte* address, std::size_t bytes) {
  if (frames_ == nullptr) {
    frames_ = address;
    frames_bytes_ = bytes;
  }
  return kind_ == MoverKind::move ? register_range(address, bytes) : 0;
}

// Small pages that were there leave an empty page table behind, and a huge page that is moved to where one is
// is split, for good. The kernel drops it with what is not there (CONFIG_PT_RECLAIM, Linux 6.14); before that
// the run stays in small pages.
void Mover::drop_table(std::byte* run) { os::advise(run, run_bytes, MADV_DONTNEED); }

int Mover::move(std::byte* from, std::byte* to, std::size_t bytes, bool allow_holes, std::size_t* moved) {
  *moved = 0;
  for (int attempt = 0; attempt < most_retries;) {
    uffdio_move request{};
    request.dst = number(to) + *moved;
    request.src = number(from) + *moved;
    request.len = bytes - *moved;
    request.mode = allow_holes ? UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES : 0;
    const int error = control(fd_, UFFDIO_MOVE, &request);
    if (error == 0) {
      *moved = bytes;
      return 0;
    }
    if (request.move > 0) *moved += static_cast<std::size_t>(request.move);
    if (error == EEXIST && moved_unreported(from + *moved, to + *moved)) {
      *moved += os::page_bytes;
      if (*moved == bytes) return 0;
      continue;
    }
    if (error != EAGAIN) return error;
    if (request.move <= 0) ++attempt;
  }
  return EAGAIN;
}

// Linux 6.18 at least: where a write of the program breaks a page's sharing with a child in the same moment,
// MOVE moves the page, tries it once more, finds it at the destination, and reports that as EEXIST and the
// page as not moved. Nobody else puts pages where we move to, so a source that is gone tells this case.
// Whoever waits for the page was not woken.
bool Mover::moved_unreported(std::byte* from, std::byte* to) {
  if (has_page(from) || !has_page(to)) return false;
  wake(to, os::page_bytes);
  return true;
}

// All or nothing: what had moved before a failure goes back.
int Mover::move_whole(std::byte* from, std::byte* to, bool may_have_holes) {
  std::size_t moved = 0;
  int error = move(from, to, run_bytes, false, &moved);
  if (error == ENOENT && may_have_holes) error = move_with_holes(from, to, &moved);
  if (error != 0 && moved > 0) move_back(to, from, moved);
  return error;
}

// Some pages of the run were never touched: move the rest and fill the gaps with zeroes, since the kernel
// must find every page of a frame that it writes to a device (a touch of a gap would wait for this thread).
int Mover::move_with_holes(std::byte* run, std::byte* frame, std::size_t* moved) {
  const std::size_t from = *moved;
  std::size_t more = 0;
  const int error = move(run + from, frame + from, run_bytes - from, true, &more);
  *moved += more;
  return error != 0 ? error : fill_holes(frame + from, run_bytes - from);
}

// Pages that MOVE refuses are copied; then the frame must not keep its own, or the next take() finds them.
void Mover::move_back(std::byte* frame, std::byte* run, std::size_t bytes) {
  std::size_t returned = 0;
  if (move(frame, run, bytes, true, &returned) == 0) return;
  if (put_by_copy(frame, run, &returned, bytes) == 0) os::advise(frame, run_bytes, MADV_DONTNEED);
}

int Mover::fill_holes(std::byte* address, std::size_t bytes) {
  for (std::size_t offset = 0; offset < bytes;) {
    uffdio_zeropage zero{};
    zero.range = {number(address) + offset, bytes - offset};
    zero.mode = UFFDIO_ZEROPAGE_MODE_DONTWAKE;
    const int error = control(fd_, UFFDIO_ZEROPAGE, &zero);
    if (error == 0) break;
    if (zero.zeropage > 0) offset += static_cast<std::size_t>(zero.zeropage);
    if (error == EEXIST) offset += os::page_bytes;
    if (error != EEXIST && error != EAGAIN) return error;
  }
  return 0;
}

bool Mover::is_whole(std::byte* run) const {
  constexpr std::size_t pages = run_bytes / os::page_bytes;
  constexpr std::uint64_t present_or_swapped = 3ULL << 62;
  std::uint64_t entries[pages];
  const auto offset = static_cast<long>(number(run) / os::page_bytes * sizeof(std::uint64_t));
  if (syscall(SYS_pread64, pagemap_fd_, entries, sizeof(entries), offset) != sizeof(entries)) return false;
  for (const std::uint64_t entry : entries) {
    if ((entry & present_or_swapped) == 0) return false;
  }
  return true;
}

Mover::Sharing Mover::sharing(std::byte* run, const PageSet& pages) const {
  constexpr std::uint64_t present = 1ULL << 63;
  constexpr std::uint64_t exclusive = 1ULL << 56;
  std::uint64_t entries[pages_per_run];
  const auto offset = static_cast<long>(number(run) / os::page_bytes * sizeof(std::uint64_t));
  if (syscall(SYS_pread64, pagemap_fd_, entries, sizeof(entries), offset) != sizeof(entries)) {
    return Sharing::some_exclusive;
  }
  for (std::uint32_t page = 0; page < pages_per_run; ++page) {
    if (!pages.has(page)) continue;
    if ((entries[page] & present) == 0 || (entries[page] & exclusive) != 0) return Sharing::some_exclusive;
  }
  return Sharing::all_shared;
}

bool Mover::present(const std::byte* run, PageSet* out) const {
  constexpr std::uint64_t present_or_swapped = 3ULL << 62;
  std::uint64_t entries[pages_per_run];
  const auto offset = static_cast<long>(number(run) / os::page_bytes * sizeof(std::uint64_t));
  if (syscall(SYS_pread64, pagemap_fd_, entries, sizeof(entries), offset) != sizeof(entries)) return false;
  PageSet set;
  for (std::uint32_t page = 0; page < pages_per_run; ++page)
    if ((entries[page] & present_or_swapped) != 0) set.add(page);
  *out = set;
  return true;
}

// Fills holes where there may be some. Without a pagemap nobody knows, and filling is harmless.
int Mover::make_whole(std::byte* run, bool may_have_holes) {
  if (is_whole(run)) return 0;
  return may_have_holes || pagemap_fd_ < 0 ? fill_holes(run, run_bytes) : ENOENT;
}

// A write fault without a write gives this process pages of its own wherever they are still shared (or were
// once). What MOVE refuses after that is pinned. MOVE asks only the head of a huge page whether it is ours
// alone, so what is left of one whose head was copied would be refused for good (Linux 6.18 at least). COLD
// splits what is left, unless it is pinned. All of `pages` must be there: a touch of one that is not would
// wait for this thread.
int Mover::own_pages(std::byte* run, const PageSet& pages) {
  for (PageRange range = pages.next(0); range.count() > 0; range = pages.next(range.end))
    if (os::advise(run + range.offset(), range.bytes(), os::advice_populate_write) != 0) return EBUSY;
  os::advise(run, run_bytes, MADV_COLD);
  return 0;
}

// MOVE said EBUSY: pinned for DMA, or shared with a forked child (or shared once and not written since).
int Mover::take_shared(std::byte* run, std::byte* frame, bool may_have_holes) {
  if (sharing(run, PageSet::all()) == Sharing::all_shared) return remap_shared(run, frame, PageSet::all());
  if (const int error = make_whole(run, may_have_holes); error != 0) return error;
  if (const int error = own_pages(run, PageSet::all()); error != 0) return error;
  return move_whole(run, frame, may_have_holes);
}

int Mover::take_shared_pages(std::byte* run, std::byte* frame, const PageSet& pages) {
  if (sharing(run, pages) == Sharing::all_shared) return remap_shared(run, frame, pages);
  PageSet there;
  if (!present(run, &there) || !(pages - there).is_empty()) return EBUSY;
  if (const int error = own_pages(run, pages); error != 0) return error;
  return move_present(run, frame);
}

// Taken so that no new pin can come; and back, if one came before.
int Mover::remap_shared(std::byte* run, std::byte* frame, const PageSet& pages) {
  if (const int error = take_by_remap(run, frame); error != 0) return EBUSY;
  const bool still_shared = sharing(frame, pages) == Sharing::all_shared;
  if (still_shared && adopt_all_frames() == 0) return 0;
  give_back_remapped(frame, run);
  return EBUSY;
}

int Mover::move_present(std::byte* run, std::byte* frame) {
  std::size_t moved = 0;
  const int error = move(run, frame, run_bytes, true, &moved);
  if (error != 0 && moved > 0) move_back(frame, run, moved);
  return error;
}

// Not taken after all, so nothing may stay in the frame; which nobody watches, so it can be read.
void Mover::give_back_remapped(std::byte* frame, std::byte* run) {
  std::size_t done = 0;
  unwatch(frame, run_bytes);
  if (put_by_remap(frame, run) != 0 && put_by_copy(frame, run, &done, run_bytes) == 0)
    os::advise(frame, run_bytes, MADV_DONTNEED);
  if (adopt_all_frames() != 0) needs_registration_ = true;
}

// The mapping moves with its pages; both are hidden from forked children (pager_fork.cpp).
int Mover::take_by_remap(std::byte* run, std::byte* frame) {
  return os::remap_keeping(run, run_bytes, frame);
}

int Mover::watch_again(std::byte* run) { return needs_registration_ ? register_range(run, run_bytes) : 0; }

int Mover::take(std::byte* run, std::byte* frame, bool may_have_holes) {
  if (watch_again(run) != 0 || (needs_registration_ && adopt_frames(frame, run_bytes) != 0)) return EBUSY;
  switch (kind_) {
    case MoverKind::move: {
      drop_table(frame);
      const int error = move_whole(run, frame, may_have_holes);
      return error == EBUSY && pagemap_fd_ >= 0 ? take_shared(run, frame, may_have_holes) : error;
    }
    case MoverKind::mremap:
      return take_by_remap(run, frame);
    case MoverKind::automatic:
      break;
  }
  return ENOTSUP;
}

int Mover::take_pages(std::byte* run, std::byte* frame, const PageSet& pages, PageSet* taken) {
  if (watch_again(run) != 0 || (needs_registration_ && adopt_frames(frame, run_bytes) != 0)) return EBUSY;
  if (pagemap_fd_ < 0) return ENOTSUP;
  int error = kind_ == MoverKind::move ? move_present(run, frame) : take_by_remap(run, frame);
  if (error == EBUSY && kind_ == MoverKind::move) error = take_shared_pages(run, frame, pages);
  if (error != 0) return error;
  *taken = pages;
  PageSet there;
  if (present(frame, &there)) *taken &= there;
  return 0;
}

int Mover::put_pages(const std::byte* from, std::byte* to, std::size_t bytes, std::size_t* done) {
  *done = 0;
  std::size_t piece = bytes;
  for (int attempt = 0; *done < bytes && attempt < most_retries;) {
    piece = std::min(piece, bytes - *done);
    uffdio_copy copy{};
    copy.dst = number(to) + *done;
    copy.src = number(from) + *done;
    copy.len = piece;
    const int error = control(fd_, UFFDIO_COPY, &copy);
    if (copy.copy > 0) *done += static_cast<std::size_t>(copy.copy);
    if (error == 0) {
      piece *= 2;
    } else if (error == EEXIST) {
      wake(to + *done, os::page_bytes);
      *done += os::page_bytes;
    } else if (may_cross_a_cut(error) && piece > os::page_bytes) {
      piece = half_of(piece);
    } else if (error != EAGAIN) {
      return error;
    } else if (copy.copy <= 0) {
      ++attempt;
    }
  }
  return *done >= bytes ? 0 : EAGAIN;
}

// A call of the program's on a part of a run (madvise, mbind) cuts its mapping in two, and no request of ours
// may cross the cut. What is refused as a whole goes on in halves: each page lies in one mapping.
int Mover::move_in_pieces(std::byte* from, std::byte* to, std::size_t bytes, std::size_t* moved) {
  *moved = 0;
  for (std::size_t piece = bytes; *moved < bytes;) {
    piece = std::min(piece, bytes - *moved);
    std::size_t more = 0;
    const int error = move(from + *moved, to + *moved, piece, false, &more);
    *moved += more;
    if (error != 0 && (!may_cross_a_cut(error) || piece == os::page_bytes)) return error;
    piece = error == 0 ? 2 * piece : half_of(piece);
  }
  return 0;
}

// Offsets [*done, end): what has been moved already is not in the frame any more, and touching it there
// would wait for this thread.
int Mover::put_by_copy(std::byte* frame, std::byte* run, std::size_t* done, std::size_t end) {
  std::size_t piece = end;
  for (int attempt = 0; *done < end && attempt < most_retries;) {
    piece = std::min(piece, end - *done);
    uffdio_copy copy{};
    copy.dst = number(run) + *done;
    copy.src = number(frame) + *done;
    copy.len = piece;
    const int error = control(fd_, UFFDIO_COPY, &copy);
    if (copy.copy > 0) *done += static_cast<std::size_t>(copy.copy);
    if (error == 0) {
      piece *= 2;
    } else if (error == EEXIST) {
      *done += os::page_bytes;
    } else if (may_cross_a_cut(error) && piece > os::page_bytes) {
      piece = half_of(piece);
    } else if (error != EAGAIN) {
      return error;
    } else if (copy.copy <= 0) {
      ++attempt;
    }
  }
  wake(run, run_bytes);
  return *done >= end ? 0 : EAGAIN;
}

// The mapping that comes along is not watched yet. Where the kernel refuses that, the run stays: moved out
// again it would leave a mapping that reads as zeroes.
int Mover::put_by_remap(std::byte* frame, std::byte* run) {
  if (const int error = os::remap_keeping(frame, run_bytes, run); error != 0) return error;
  if (register_range(run, run_bytes) != 0) needs_registration_ = true;
  wake(run, run_bytes);
  return 0;
}

int Mover::put(std::byte* frame, std::byte* run, bool* frame_keeps_memory) {
  *frame_keeps_memory = false;
  // Too many mappings, most likely: the copy below needs none.
  if (kind_ == MoverKind::mremap && put_by_remap(frame, run) == 0) return 0;
  std::size_t moved = 0;
  if (kind_ == MoverKind::move) drop_table(run);
  int error = kind_ == MoverKind::move ? put_by_move(frame, run, &moved) : EBUSY;
  if (error == 0) return 0;
  // Still EBUSY: the frame's pages are shared with a child. EINVAL: what protects the run is not what
  // protects the frame. Copy what has not moved.
  std::size_t done = moved;
  if (error == EBUSY || error == EAGAIN || error == EEXIST || error == EINVAL) {
    error = put_by_copy(frame, run, &done, run_bytes);
  }
  *frame_keeps_memory = error == 0;
  if (error != 0 && !take_back(run, frame, moved, done)) return ENOTRECOVERABLE;
  return error;
}

int Mover::put_by_move(std::byte* frame, std::byte* run, std::size_t* moved) {
  int error = move_in_pieces(frame, run, run_bytes, moved);
  // The block layer lets go of the pages of a finished read a little after it reports its end.
  for (int attempt = 0; error == EBUSY && attempt < busy_retries; ++attempt) {
    syscall(SYS_sched_yield);
    std::size_t more = 0;
    error = move_in_pieces(frame + *moved, run + *moved, run_bytes - *moved, &more);
    *moved += more;
  }
  return error;
}

// The way back of a put that failed on its way: [0, moved) is not in the frame any more, [moved, done) is in
// both, and the program may have written to either since.
bool Mover::take_back(std::byte* run, std::byte* frame, std::size_t moved, std::size_t done) {
  if (done == 0) return true;
  if (kind_ != MoverKind::move) return false;
  if (done > moved) os::advise(frame + moved, done - moved, MADV_DONTNEED);
  std::size_t returned = 0;
  return move_in_pieces(run, frame, done, &returned) == 0;
}

void Mover::unlock() const {
  if (nursery_ != nullptr) os::unlock(nursery_, run_bytes);
}

// Before Linux 5.14. Nobody watches the nursery: the kernel serves these faults.
int Mover::touch_nursery() {
  auto* const at = static_cast<volatile std::byte*>(nursery_);
  for (std::size_t offset = 0; offset < run_bytes; offset += os::page_bytes) at[offset] = std::byte{0};
  return 0;
}

int Mover::populate(std::byte* frame) {
  int error = os::advise(nursery_, run_bytes, os::advice_populate_write);
  if (error == EINVAL) error = touch_nursery();
  if (error != 0) return error;
  if (kind_ == MoverKind::move) {
    drop_table(frame);
    return move_whole(nursery_, frame, false);
  }
  return os::remap_keeping(nursery_, run_bytes, frame);
}

bool Mover::has_page(const std::byte* address) {
  unsigned char resident = 0;
  const int error = os::error_of(
      syscall(SYS_mincore, number(address) & ~std::uint64_t{os::page_bytes - 1}, os::page_bytes, &resident));
  return error == 0 && (resident & 1) != 0;
}

int Mover::zero_page(std::byte* address) {
  return zero_pages(address - number(address) % os::page_bytes, os::page_bytes);
}

int Mover::zero_pages(std::byte* address, std::size_t bytes) {
  int error = 0;
  std::size_t done = 0;
  for (int attempt = 0; done < bytes && attempt < most_retries;) {
    uffdio_zeropage zero{};
    zero.range = {number(address) + done, bytes - done};
    error = control(fd_, UFFDIO_ZEROPAGE, &zero);
    if (zero.zeropage > 0) done += static_cast<std::size_t>(zero.zeropage);
    if (error == 0) break;
    if (error == EEXIST) {
      wake(address + done, os::page_bytes);
      done += os::page_bytes;
    } else if (error != EAGAIN) {
      break;
    } else {
      ++attempt;
    }
  }
  if (error != 0) wake(address, bytes);
  return error == EEXIST ? 0 : error;
}

void Mover::wake(std::byte* address, std::size_t bytes) {
  uffdio_range range{number(address) & ~(os::page_bytes - 1), bytes};
  control(fd_, UFFDIO_WAKE, &range);
}

int Mover::poison(std::byte* run) {
  if (os::map_file_private(run_bytes, poison_fd_, run) == nullptr) return errno;
  wake(run, run_bytes);
  return 0;
}

int Mover::heal(std::byte* run) {
  if (os::map_anonymous(run_bytes, PROT_READ | PROT_WRITE, run) == nullptr) return errno;
  os::unlock(run, run_bytes);
  os::advise(run, run_bytes, MADV_DONTFORK);
  return register_range(run, run_bytes);
}

bool Mover::next_fault(Fault* fault) {
  uffd_msg message;
  for (;;) {
    const long got = syscall(SYS_read, fd_, &message, sizeof(message));
    if (got != sizeof(message)) return false;
    if (message.event != UFFD_EVENT_PAGEFAULT) continue;
    fault->address =
        reinterpret_cast<std::byte*>(message.arg.pagefault.address);  // NOLINT: the kernel's number
    fault->write_protected = (message.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP) != 0;
    return true;
  }
}

}  // namespace terrace::liballoc
