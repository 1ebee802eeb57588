#include "liballoc/heap/blocks.h"

#include <pthread.h>

#include <algorithm>
#include <cerrno>

#include "liballoc/agent/waiting/waker.h"
#include "liballoc/base/os.h"
#include "liballoc/paging/pager.h"

namespace terrace::liballoc {
namespace {

// A pointer to what is the thread's own; of its low bits all are alike.
std::uint32_t this_thread() { return static_cast<std::uint32_t>(pthread_self() >> 6U); }

constexpr std::uint64_t full_queue_pause_ns = 50'000;
constexpr std::uint32_t look_after_granules = 8U << 20 >> 14;

}  // namespace

int Blocks::initialise(std::byte* base, std::size_t bytes) {
  base_ = base;
  const int error = space_.initialise(base, bytes);
  return error != 0 ? error : queue_.initialise();
}

void Blocks::lock_with_room() {
  lock_.lock();
  while (recording_ && !queue_.has_room()) {
    lock_.unlock();
    waker_.kick();
    constexpr std::uint32_t never = 0;
    os::futex_wait_for(&never, 0, full_queue_pause_ns);
    lock_.lock();
  }
}

void Blocks::note(BlockChange change, std::uint32_t id, std::uint32_t first, std::uint32_t granules,
                  bool zeroed) {
  const Block& b = space_.block(id);
  if (!recording_ || b.first >= recorded_below_) return;
  queue_.push({.call_site = b.call_site,
               .block = id,
               .first = first,
               .granules = granules,
               .thread = this_thread(),
               .change = change,
               .hints = b.hints,
               .zeroed = zeroed});
}

// Who marks waits for nobody: a mark is worth less than the program's time.
int Blocks::mark(std::uint64_t name) {
  if (!recording_) return 0;
  bool wakes = false;
  {
    const LockGuard guard(lock_);
    if (!recording_) return 0;
    if (!queue_.has_room()) return EAGAIN;
    queue_.push({.call_site = name, .thread = this_thread(), .change = BlockChange::marked});
    wakes = queue_.is_worth_a_look(look_after_granules);
  }
  if (wakes) waker_.kick();
  return 0;
}

// While the agent is told of blocks, it is the agent that knows what is virgin.
void Blocks::free(std::uint32_t id, bool virgin) {
  const Block& b = space_.block(id);
  note(BlockChange::freed, id, b.first, b.granules, false);
  space_.free(id, virgin && !recording_);
}

KnownBlock Blocks::known(std::uint32_t id) const {
  const Block& b = space_.block(id);
  return {.call_site = b.call_site, .first = b.first, .granules = b.granules, .hints = b.hints};
}

bool Blocks::is_worth_a_look() { return recording_ && queue_.is_worth_a_look(look_after_granules); }

bool Blocks::passes_mark() {
  const bool passes = !recording_ && spread_granules() > wake_at_.load(std::memory_order_relaxed);
  if (passes) wake_at_.store(~0U);
  return passes;
}

void Blocks::wake_at(std::uint64_t bytes) {
  wake_at_.store(static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes / granule_bytes, ~0U)));
}

Blocks::Runs Blocks::runs_of(const void* address, std::size_t bytes) {
  if (bytes == 0) return {};
  const LockGuard guard(lock_);
  const std::uint32_t id = space_.live_block_covering(address);
  if (id == 0) return {};
  const auto* at = static_cast<const std::byte*>(address);
  const std::byte* end = space_.address(id) + space_.capacity(id);
  if (bytes > static_cast<std::size_t>(end - at)) return {};
  return {.block = id, .first = run_of(at), .last = run_of(at + bytes - 1)};
}

// Some at a time, so that nobody waits long for the lock: those that were passed by send notes, those ahead
// are found as they are by then.
void Blocks::begin_recording(Pager& pager) {
  constexpr unsigned extents_at_once = 1024;
  recorded_below_ = 0;
  for (bool done = false; !done;) {
    const LockGuard guard(lock_);
    recording_ = true;
    std::uint32_t at = space_.extent_start(recorded_below_);
    if (at < recorded_below_) at = space_.extent_end(at);
    for (unsigned i = 0; i < extents_at_once && at < space_.top(); ++i, at = space_.extent_end(at)) {
      const std::uint32_t id = space_.id_at(at);
      if (space_.block(id).state == BlockState::live) pager.blocks().learn(id, known(id));
    }
    done = at >= space_.top();
    recorded_below_ = done ? ~0U : at;
  }
}

void Blocks::tell_top(Pager& pager) {
  const LockGuard guard(lock_);
  pager.know_top(space_.top());
}

void Blocks::check_invariants() {
  const LockGuard guard(lock_);
  space_.check_invariants();
}

}  // namespace terrace::liballoc
