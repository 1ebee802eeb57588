// What a daemon grants (heap_session.h), and what the heap gives back where that is less than it holds: idle
// frames first, then blocks that the program has offered. What is in use stays, and the daemon names it.
#include <algorithm>
#include <cerrno>

#include "liballoc/gpu/heap/heap.h"

namespace terrace::liballoc::gpu {

// The ledger's limit never falls below what it holds, and follows it down.
void Heap::apply_limits() {
  const std::uint64_t frame = ledger_.frame_bytes();
  counts_.budget_bytes = std::min(own_budget_bytes_, grant_.bytes());
  ledger_.set_limit(std::max(counts_.budget_bytes / frame, ledger_.held()));
}

std::uint64_t Heap::frames_over() const {
  const std::uint64_t wanted = counts_.budget_bytes / ledger_.frame_bytes();
  return ledger_.held() - std::min(ledger_.held(), wanted);
}

void Heap::set_grant(std::uint64_t bytes, bool is_connected) {
  {
    const std::lock_guard guard(mutex_);
    if (!grant_.set(bytes, is_connected)) return;
    apply_limits();
  }
  grant_changed_.notify_all();
}

void Heap::lose_daemon() {
  {
    const std::lock_guard guard(mutex_);
    grant_.disconnected();
  }
  grant_changed_.notify_all();
}

// Nothing here waits for the device, or puts anything into a stream of the program's: this is another thread.
void Heap::obey() {
  const std::lock_guard guard(mutex_);
  poll_waiting();
  evictions_.poll();
  give_up_excess();
}

void Heap::give_up_excess() {
  if (frames_over() == 0) return;
  arenas_.settle_passed();
  arenas_.gather(frames_over());
  const std::uint64_t excess = std::min(ledger_.spare(), frames_over());
  ledger_.destroy_spare(ledger_.spare() - excess);
  const std::uint64_t over = frames_over() * ledger_.frame_bytes();
  for (std::uint64_t leaving = evictions_.leaving_bytes(); leaving < over;) {
    const std::uint64_t bytes = evict_one_offered();
    if (bytes == 0) break;
    leaving += bytes;
  }
  evictions_.poll();
  apply_limits();
}

// 0: none is offered, or host memory is short. The copy stream runs behind the block's uses since offer().
std::uint64_t Heap::evict_one_offered() {
  const auto offset = offers_.take();
  if (!offset || evictions_.lost() != 0) return 0;
  const Block block = live_.at(*offset);
  const std::uint64_t bytes = Arenas::asked_bytes(block);
  if (evictions_.evict_to_copy(*offset, block) == 0) return bytes;
  offers_.add(*offset, bytes);
  return 0;
}

int Heap::offer(void* address, Stream stream) {
  const std::lock_guard guard(mutex_);
  const std::uint64_t offset = offset_of(address);
  const auto found = live_.find(offset);
  if (found == live_.end()) return EINVAL;
  if (evictions_.has(offset) || offers_.has(offset)) return EALREADY;
  if (const int error = evictions_.order_copy(stream, recorded_of(offset)); error != 0) return error;
  offers_.add(offset, Arenas::asked_bytes(found->second));
  give_up_excess();
  return 0;
}

// What frames hold that is not idle.
std::uint64_t Heap::used_bytes() const {
  const std::uint64_t idle = ledger_.spare() * ledger_.frame_bytes() + arenas_.idle_bytes();
  const std::uint64_t held = ledger_.held() * ledger_.frame_bytes();
  return held - std::min(held, idle);
}

Heap::Report Heap::report() {
  const std::lock_guard guard(mutex_);
  return {.held_bytes = ledger_.held() * ledger_.frame_bytes(),
          .wanted_bytes = grant_.demand(used_bytes(), own_budget_bytes_),
          .allocated_bytes = counts_.allocated_bytes,
          .evicted_bytes = counts_.evicted_bytes,
          .limit_bytes = counts_.budget_bytes};
}

// False: it was in vain, or nobody can grant more. The heap's state may be another one afterwards.
bool Heap::wait_for_grant(std::unique_lock<std::mutex>* lock, std::uint64_t bytes,
                          std::chrono::steady_clock::time_point until) {
  grant_.went_without(bytes);
  if (!grant_.is_worth_waiting(bytes)) return false;
  const std::uint64_t before = grant_.bytes();
  const bool has_changed = grant_changed_.wait_until(
      *lock, until, [&] { return grant_.bytes() > before || !grant_.is_worth_waiting(bytes); });
  if (!has_changed) grant_.waited_in_vain(bytes);
  return has_changed && grant_.bytes() > before;
}

}  // namespace terrace::liballoc::gpu
