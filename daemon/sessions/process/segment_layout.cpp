// See segment_layout.h.
#include "daemon/sessions/process/segment_layout.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <boost/interprocess/indexes/iset_index.hpp>
#include <boost/interprocess/managed_external_buffer.hpp>
#include <boost/interprocess/mem_algo/rbtree_best_fit.hpp>
#include <boost/interprocess/sync/mutex_family.hpp>
#include <cerrno>
#include <new>

#include "liballoc/wire/protocol.h"

namespace terrace::daemon {
namespace {

namespace ipc = boost::interprocess;

// No mutex: one writer at a time by construction, and a lock in shared memory outlives its owner's death.
using Layout = ipc::basic_managed_external_buffer<
    char, ipc::rbtree_best_fit<ipc::null_mutex_family, ipc::offset_ptr<void>>, ipc::iset_index>;

constexpr std::uint64_t page_bytes = 4096;
constexpr std::uint64_t bookkeeping_bytes = 2 * page_bytes;
constexpr std::uint64_t segment_bytes =
    (wire::ring_bytes(Segment::ring_capacity) + sizeof(wire::JobStats) + bookkeeping_bytes) / page_bytes *
        page_bytes +
    page_bytes;
static_assert(segment_bytes <= wire::max_segment_bytes);

UniqueFd sealed_memory(std::uint64_t bytes) {
  UniqueFd fd(::memfd_create("terrace-segment", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return UniqueFd();
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return UniqueFd();
  return fd;
}

}  // namespace

int Segment::create(Segment* out) {
  Segment made;
  made.fd_ = sealed_memory(segment_bytes);
  if (!made.fd_) return errno;
  void* base = ::mmap(nullptr, segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, made.fd_.get(), 0);
  if (base == MAP_FAILED) return errno;
  made.base_ = base;
  made.bytes_ = segment_bytes;
  if (const int error = made.lay_out(); error != 0) return error;
  made.let_go_of_events();
  *out = std::move(made);
  return 0;
}

int Segment::lay_out() {
  try {
    Layout layout(ipc::create_only, base_, bytes_);
    auto* stats =
        static_cast<char*>(layout.allocate_aligned(sizeof(wire::JobStats), alignof(wire::JobStats)));
    auto* ring = static_cast<char*>(
        layout.allocate_aligned(wire::ring_bytes(ring_capacity), alignof(wire::EventRing)));
    new (stats) wire::JobStats{};
    new (ring) wire::EventRing{};  // its slots are zero pages of the new memfd
    stats_offset_ = static_cast<std::uint64_t>(stats - static_cast<char*>(base_));
    ring_offset_ = static_cast<std::uint64_t>(ring - static_cast<char*>(base_));
    return 0;
  } catch (const ipc::interprocess_exception&) {
    return ENOMEM;
  }
}

// All pages but those of the counters and the ring's head, which are read again and again.
void Segment::let_go_of_events() const {
  const std::uint64_t kept =
      std::max(stats_offset_ + sizeof(wire::JobStats), ring_offset_ + sizeof(wire::EventRing));
  const std::uint64_t from = (kept + page_bytes - 1) / page_bytes * page_bytes;
  if (from < bytes_) ::madvise(static_cast<char*>(base_) + from, bytes_ - from, MADV_DONTNEED);
}

Segment::Segment(Segment&& other) noexcept { *this = std::move(other); }

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  std::swap(stats_offset_, other.stats_offset_);
  std::swap(ring_offset_, other.ring_offset_);
  std::swap(fd_, other.fd_);
  return *this;
}

Segment::~Segment() {
  if (base_ != nullptr) ::munmap(base_, bytes_);
}

const wire::JobStats& Segment::stats() const {
  return *reinterpret_cast<const wire::JobStats*>(static_cast<const char*>(base_) + stats_offset_);
}

const wire::EventRing* Segment::ring() const {
  return reinterpret_cast<const wire::EventRing*>(static_cast<const char*>(base_) + ring_offset_);
}

}  // namespace terrace::daemon
