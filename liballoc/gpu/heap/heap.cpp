#include "liballoc/gpu/heap/heap.h"

#include <algorithm>
#include <cerrno>

namespace terrace::liballoc::gpu {

int Heap::open(std::uint64_t budget_bytes) {
  const std::uint64_t frame = device_.frame_bytes();
  const std::uint64_t total = device_.memory().total_bytes / frame * frame;
  if (budget_bytes == 0) budget_bytes = total;
  if (budget_bytes < frame || budget_bytes > total) return EINVAL;
  if (const int error = arenas_.open(total, frame); error != 0) return error;
  own_budget_bytes_ = budget_bytes;
  apply_limits();
  return 0;
}

std::uint64_t Heap::offset_of(const void* block) const {
  return static_cast<std::uint64_t>(static_cast<const std::byte*>(block) - ledger_.base());
}

const std::vector<Owner>& Heap::recorded_of(std::uint64_t offset) const {
  static const std::vector<Owner> no_other;
  const auto found = recorded_.find(offset);
  return found == recorded_.end() ? no_other : found->second;
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
  evictions_.poll();
  if (evictions_.lost() != 0) return evictions_.lost();
  if (frames_over() > 0) {  // here, on the program's thread, marks may have their events
    clocks_.flush();
    give_up_excess();
  }
  if (bytes > counts_.budget_bytes) return ENOMEM;
  int refusal = ENOMEM;
  if (arenas_.at_once(bytes, owner, out)) return 0;
  do {
    if (arenas_.find(bytes, owner, stream, out, &refusal)) return 0;
  } while (relieve());
  return refusal;
}

int Heap::find_frames(std::uint64_t wanted) {
  for (;;) {
    if (ledger_.spare() < wanted) arenas_.gather(wanted);
    if (ledger_.spare() >= wanted) return 0;
    const int error = ledger_.create(wanted - ledger_.spare());
    if (error == 0) return 0;
    if (error != ENOMEM || !relieve()) return error;
  }
}

// Under pressure. True: something became free, try again.
bool Heap::relieve() {
  if (arenas_.settle_passed()) return true;
  if (evict_one_offered() == 0) return wait_for_one();
  if (evictions_.is_any_leaving()) evictions_.wait_for_one();
  return true;
}

// For a block that is leaving, a recorded stream of a block that was freed, or the last use of the largest
// free range.
bool Heap::wait_for_one() {
  if (evictions_.is_any_leaving() && evictions_.wait_for_one()) return true;
  const Mark mark = waiting_.empty() ? arenas_.largest_last_use() : waiting_.front().others.front();
  if (mark.owner == nobody) return false;
  ++counts_.host_waits;
  if (clocks_.wait(mark) != 0) return false;
  poll_waiting();
  return true;
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
  const std::uint64_t offset = Arenas::span_of(block).begin;
  arenas_.use(block, bytes);
  live_.emplace(offset, block);
  note_allocated(bytes);
  *out = ledger_.base() + offset;
  return 0;
}

int Heap::free(void* address, Stream stream) {
  const std::lock_guard guard(mutex_);
  const std::uint64_t offset = offset_of(address);
  const auto found = live_.find(offset);
  if (found == live_.end()) return EINVAL;
  const Block block = found->second;
  live_.erase(found);
  if (!offers_.empty()) offers_.withdraw(offset);
  ++counts_.frees;
  counts_.allocated_bytes -= Arenas::asked_bytes(block);
  evictions_.forget(offset, stream);
  const Mark mark = clocks_.mark(clocks_.owner(stream));
  const auto recorded = recorded_.empty() ? recorded_.end() : recorded_.find(offset);
  if (recorded == recorded_.end()) {
    arenas_.release(block, mark);
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
  return found == live_.end() ? 0 : Arenas::asked_bytes(found->second);
}

int Heap::evict(void* address, bool keep_mapped, Stream stream) {
  const std::lock_guard guard(mutex_);
  const std::uint64_t offset = offset_of(address);
  const auto found = live_.find(offset);
  if (found == live_.end()) return EINVAL;
  evictions_.poll();
  if (evictions_.lost() != 0) return evictions_.lost();
  if (evictions_.has(offset)) return EALREADY;
  offers_.withdraw(offset);
  if (const int error = evictions_.order_copy(stream, recorded_of(offset)); error != 0) return error;
  return keep_mapped ? evictions_.evict_to_host_frames(offset, found->second)
                     : evictions_.evict_to_copy(offset, found->second);
}

int Heap::restore(void* address, Stream stream) {
  std::unique_lock lock(mutex_);
  const std::uint64_t offset = offset_of(address);
  if (!live_.contains(offset)) return EINVAL;
  evictions_.poll();
  if (evictions_.lost() != 0) return evictions_.lost();
  if (offers_.withdraw(offset)) return 0;
  return evictions_.restore(offset, stream, recorded_of(offset), &lock);
}

void Heap::poll_waiting() {
  for (std::size_t i = 0; i < waiting_.size();) {
    std::vector<Mark>& others = waiting_[i].others;
    std::erase_if(others, [this](const Mark& mark) { return clocks_.passed(mark); });
    if (!others.empty()) {
      ++i;
      continue;
    }
    arenas_.release(waiting_[i].block, waiting_[i].mark);
    waiting_[i] = std::move(waiting_.back());
    waiting_.pop_back();
  }
}

int Heap::give_back() {
  const std::lock_guard guard(mutex_);
  poll_waiting();
  evictions_.poll();
  clocks_.flush();
  arenas_.gather(ledger_.held());
  return ledger_.destroy_spare(0);
}

int Heap::set_budget(std::uint64_t budget_bytes) {
  const std::lock_guard guard(mutex_);
  const std::uint64_t total = device_.memory().total_bytes;
  if (budget_bytes < ledger_.frame_bytes() || budget_bytes > total) return EINVAL;
  const std::uint64_t frames = budget_bytes / ledger_.frame_bytes();
  while (ledger_.held() > frames) {
    arenas_.gather(ledger_.spare() + ledger_.held() - frames);
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
  evictions_.poll();
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

std::string Heap::check_invariants() {
  const std::lock_guard guard(mutex_);
  if (std::string wrong = arenas_.check_invariants(); !wrong.empty()) return wrong;
  std::uint64_t allocated = 0;
  for (const auto& [offset, block] : live_) {
    allocated += Arenas::asked_bytes(block);
    if (Arenas::span_of(block).begin != offset) return "a block is not where it is looked up";
  }
  if (allocated != counts_.allocated_bytes) return "allocated bytes are miscounted";
  return ledger_.check_invariants();
}

}  // namespace terrace::liballoc::gpu
