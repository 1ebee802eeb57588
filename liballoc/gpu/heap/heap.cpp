#include "liballoc/gpu/heap/heap.h"

#include <algorithm>
#include <cerrno>

namespace terrace::liballoc::gpu {
namespace {

// Addresses reserved, in multiples of the device's memory: best fit over addresses that are never short.
constexpr std::uint64_t small_share = 1;
constexpr std::uint64_t large_share = 4;

std::uint64_t rounded(std::uint64_t bytes) {
  return (bytes + Placement::granularity - 1) / Placement::granularity * Placement::granularity;
}

}  // namespace

int Heap::open(std::uint64_t budget_bytes) {
  const std::uint64_t frame = device_.frame_bytes();
  const std::uint64_t total = device_.memory().total_bytes / frame * frame;
  if (budget_bytes == 0) budget_bytes = total;
  if (budget_bytes < frame || budget_bytes > total) return EINVAL;
  const int error = ledger_.open((small_share + large_share) * (total / frame));
  if (error != 0) return error;
  own_budget_bytes_ = budget_bytes;
  apply_limits();
  arenas_.reserve(2);
  arenas_.emplace_back(0, small_share * total, frame);
  arenas_.emplace_back(small_share * total, large_share * total, frame);
  return 0;
}

std::uint64_t Heap::offset_of(const void* block) const {
  return static_cast<std::uint64_t>(static_cast<const std::byte*>(block) - ledger_.base());
}

Span Heap::span_of(const Block& block) const {
  const Placement::Piece& piece = block.arena->placement.piece(block.piece);
  return {piece.begin, piece.end};
}

Span Heap::frames_of(Span span) const {
  const std::uint64_t frame = ledger_.frame_bytes();
  return {span.begin / frame * frame, (span.end + frame - 1) / frame * frame};
}

void Heap::note_allocated(std::uint64_t bytes) {
  ++counts_.allocations;
  counts_.allocated_bytes += bytes;
  counts_.allocated_peak_bytes = std::max(counts_.allocated_peak_bytes, counts_.allocated_bytes);
  counts_.reserved_peak_bytes = std::max(counts_.reserved_peak_bytes, ledger_.held() * ledger_.frame_bytes());
}

// 0, or why there is no place.
int Heap::find_place(std::uint64_t bytes, Stream stream, Block* out) {
  const Owner owner = clocks_.owner(stream);
  if (!waiting_.empty()) poll_waiting();
  if (leaving_ > 0 || !draining_.empty() || !arriving_.empty()) poll_copies();
  if (lost_ != 0) return lost_;
  if (frames_over() > 0) {  // here, on the program's thread, marks may have their events
    clocks_.flush();
    give_up_excess();
  }
  Arena& arena = arena_for(bytes);
  refusal_ = ENOMEM;
  const Handle piece = bytes > counts_.budget_bytes ? none : place(&arena, rounded(bytes), owner, stream);
  if (piece == none) return refusal_;
  *out = {&arena, piece};
  return 0;
}

int Heap::allocate(std::uint64_t bytes, Stream stream, void** out) {
  std::unique_lock lock(mutex_);
  if (bytes == 0) return EINVAL;
  Block block{};
  int error = find_place(bytes, stream, &block);
  if (error == ENOMEM && bytes <= own_budget_bytes_) {
    const auto until = std::chrono::steady_clock::now() + grant_patience;
    while (error == ENOMEM && grant_.bytes() < own_budget_bytes_ && wait_for_grant(&lock, bytes, until))
      error = find_place(bytes, stream, &block);
  }
  if (error != 0) {
    ++counts_.failures;
    return error;
  }
  Arena& arena = *block.arena;
  const Handle piece = block.piece;
  const Span span = span_of(block);
  ledger_.use(span);
  live_.emplace(span.begin, block);
  if (arena.asked_bytes.size() <= piece) arena.asked_bytes.resize(piece + 1);
  arena.asked_bytes[piece] = bytes;
  note_allocated(bytes);
  *out = ledger_.base() + span.begin;
  return 0;
}

int Heap::free(void* address, Stream stream) {
  const std::lock_guard guard(mutex_);
  const auto found = live_.find(offset_of(address));
  if (found == live_.end()) return EINVAL;
  const Block block = found->second;
  live_.erase(found);
  if (!offers_.empty()) offers_.withdraw(offset_of(address));
  ++counts_.frees;
  counts_.allocated_bytes -= block.arena->asked_bytes[block.piece];
  if (!evicted_.empty()) forget_evicted(span_of(block).begin, stream);
  const Mark mark = clocks_.mark(clocks_.owner(stream));
  const auto recorded = recorded_.empty() ? recorded_.end() : recorded_.find(span_of(block).begin);
  if (recorded == recorded_.end()) {
    release(block, mark);
    return 0;
  }
  Waiting waiting{block, mark, {}};
  for (const Owner other : recorded->second) {
    if (other != mark.owner) waiting.others.push_back(clocks_.mark(other));
    clocks_.let_go(other);
  }
  recorded_.erase(recorded);
  waiting_.push_back(std::move(waiting));
  poll_waiting();
  return 0;
}

int Heap::record_stream(void* address, Stream stream) {
  const std::lock_guard guard(mutex_);
  const std::uint64_t offset = offset_of(address);
  if (!live_.contains(offset)) return EINVAL;
  std::vector<Owner>& streams = recorded_[offset];
  const Owner owner = clocks_.owner(stream);
  if (std::find(streams.begin(), streams.end(), owner) != streams.end()) return 0;
  streams.push_back(owner);
  clocks_.keep(owner);
  return 0;
}

void Heap::end_stream(Stream stream) {
  const std::lock_guard guard(mutex_);
  clocks_.end(stream);
}

std::uint64_t Heap::size_of(const void* address) {
  const std::lock_guard guard(mutex_);
  const auto found = live_.find(offset_of(address));
  return found == live_.end() ? 0 : found->second.arena->asked_bytes[found->second.piece];
}

void Heap::release(const Block& block, Mark mark) {
  ledger_.leave(span_of(block), mark);
  put_back(block.arena, block.piece, mark);
}

void Heap::poll_waiting() {
  for (std::size_t i = 0; i < waiting_.size();) {
    std::vector<Mark>& others = waiting_[i].others;
    std::erase_if(others, [this](const Mark& mark) { return clocks_.passed(mark); });
    if (!others.empty()) {
      ++i;
      continue;
    }
    release(waiting_[i].block, waiting_[i].mark);
    waiting_[i] = std::move(waiting_.back());
    waiting_.pop_back();
  }
}

int Heap::give_back() {
  const std::lock_guard guard(mutex_);
  poll_waiting();
  poll_copies();
  clocks_.flush();
  gather(ledger_.held());
  return ledger_.destroy_spare(0);
}

int Heap::set_budget(std::uint64_t budget_bytes) {
  const std::lock_guard guard(mutex_);
  const std::uint64_t total = device_.memory().total_bytes;
  if (budget_bytes < ledger_.frame_bytes() || budget_bytes > total) return EINVAL;
  const std::uint64_t frames = budget_bytes / ledger_.frame_bytes();
  while (ledger_.held() > frames) {
    gather(ledger_.spare() + ledger_.held() - frames);
    const std::uint64_t excess = std::min(ledger_.spare(), ledger_.held() - frames);
    if (const int error = ledger_.destroy_spare(ledger_.spare() - excess); error != 0) return error;
    if (ledger_.held() > frames && !relieve()) return EBUSY;
  }
  own_budget_bytes_ = budget_bytes;
  apply_limits();
  return 0;
}

int Heap::set_budget_share(double share) {
  return set_budget(static_cast<std::uint64_t>(share * static_cast<double>(device_.memory().total_bytes)));
}

terrace_gpu_statistics Heap::statistics() {
  const std::lock_guard guard(mutex_);
  poll_copies();
  terrace_gpu_statistics out = counts_;
  out.size = sizeof(out);
  out.reserved_bytes = ledger_.held() * ledger_.frame_bytes();
  out.reserved_peak_bytes = std::max(counts_.reserved_peak_bytes, out.reserved_bytes);
  out.frames_created = ledger_.created();
  return out;
}

std::uint64_t Heap::map_calls() {
  const std::lock_guard guard(mutex_);
  return ledger_.map_calls();
}

}  // namespace terrace::liballoc::gpu
