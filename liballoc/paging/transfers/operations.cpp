#include "liballoc/paging/transfers/operations.h"

#include <cerrno>
#include <new>

#include "liballoc/base/os.h"

namespace terrace::liballoc {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{Reach::longest_piece} * os::page_bytes;

}  // namespace

int OperationTable::initialise() {
  buffers_ = static_cast<std::byte*>(os::map_anonymous(most_pieces * buffer_bytes, PROT_READ | PROT_WRITE));
  constexpr std::size_t jobs = most - most_pieces;
  jobs_ = static_cast<Job*>(os::map_anonymous(jobs * sizeof(Job), PROT_READ | PROT_WRITE));
  if (buffers_ == nullptr || jobs_ == nullptr) return ENOMEM;
  for (std::size_t i = 0; i < jobs; ++i) new (&jobs_[i]) Job;
  return 0;
}

void OperationTable::forget_all() {
  for (TierOperation& op : operations_) op = TierOperation{};
  writes_ = reads_ = arrived_ = pieces_ = 0;
}

std::uint32_t& OperationTable::count_of(TierOperation::Kind kind) {
  switch (kind) {
    case TierOperation::Kind::read:
      return reads_;
    case TierOperation::Kind::piece:
      return pieces_;
    case TierOperation::Kind::write:
    case TierOperation::Kind::fill:
      break;
  }
  return writes_;
}

TierOperation* OperationTable::begin(TierOperation::Kind kind, std::uint32_t n) {
  const bool is_piece = kind == TierOperation::Kind::piece;
  for (std::size_t i = is_piece ? 0 : most_pieces; i < (is_piece ? most_pieces : most); ++i) {
    TierOperation& op = operations_[i];
    if (op.busy) continue;
    op = TierOperation{};
    op.busy = true;
    op.kind = kind;
    op.run = n;
    ++count_of(kind);
    op.among = reads_in_device();
    return &op;
  }
  return nullptr;
}

void OperationTable::end(TierOperation& op) {
  note_not_arrived(op);
  op.busy = false;
  --count_of(op.kind);
}

void OperationTable::note_arrived(TierOperation& read) {
  read.has_arrived = true;
  ++arrived_;
}

void OperationTable::note_not_arrived(TierOperation& op) {
  arrived_ -= op.has_arrived ? 1 : 0;
  op.has_arrived = false;
}

void OperationTable::begin_anew(TierOperation& op) {
  note_not_arrived(op);
  op.error = 0;
  op.cursor = op.parts = op.bytes = 0;
  op.in_submit_ns = 0;
}

std::byte* OperationTable::buffer_of(const TierOperation& piece) const {
  return buffers_ + static_cast<std::size_t>(&piece - operations_) * buffer_bytes;
}

unsigned OperationTable::undecided_writes() {
  unsigned count = 0;
  for (const TierOperation& op : operations_)
    count += op.busy && op.is_write() && op.is_computed && job_of(op).kind == Job::Kind::sum ? 1 : 0;
  return count;
}

const TierOperation* OperationTable::of_run(std::uint32_t n) const {
  for (const TierOperation& op : operations_)
    if (op.busy && op.run == n && !op.is_piece()) return &op;
  return nullptr;
}

TierOperation* OperationTable::of_run(std::uint32_t n) {
  return const_cast<TierOperation*>(static_cast<const OperationTable*>(this)->of_run(n));
}

bool OperationTable::brings(const Run& r, std::uint32_t n, std::uint32_t page) const {
  if (r.pieces == 0) return false;
  for (const TierOperation& op : operations_)
    if (op.busy && op.run == n && op.is_piece() && op.pages.has(page)) return true;
  return false;
}

PageSet OperationTable::not_brought(std::uint32_t n, PageSet pages) const {
  for (const TierOperation& op : operations_)
    if (op.busy && op.run == n && op.is_piece()) pages -= op.pages;
  return pages;
}

void OperationTable::forget(std::uint32_t n, const PageSet& pages) {
  for (TierOperation& op : operations_)
    if (op.busy && op.run == n) op.pages -= pages;
}

void OperationTable::let_go(Run& r, std::uint32_t n, bool releases) {
  bool extent_is_used = false;
  for (TierOperation& op : operations_) {
    if (!op.busy || op.run != n) continue;
    op.run = none;
    const bool uses_frame =
        op.kind == TierOperation::Kind::read || (op.is_write() && op.buffer == RunCodec::no_buffer);
    if (uses_frame && op.frame == r.frame) {
      op.owns_frame = true;
      r.frame = none;
    }
    if (op.owns_slot) {
      op.releases_slot = releases;
    } else if (r.has_slot) {
      op.slot_offset = r.slot_offset;
      op.slot_bytes = r.slot_bytes;
      op.slot_epoch = r.slot_epoch;
      op.shares_slot = extent_is_used = releases;
    }
  }
  if (extent_is_used) r.has_slot = false;
  r.pieces = 0;
  r.in_flight = false;
}

bool OperationTable::ends_extent(const TierOperation& op) const {
  for (const TierOperation& other : operations_)
    if (other.busy && &other != &op && other.shares_slot && other.slot_offset == op.slot_offset) return false;
  return op.shares_slot;
}

}  // namespace terrace::liballoc
