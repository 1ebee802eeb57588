// The C API (terrace.h) over the heap. Translates errno values to -errno and nothing else.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "liballoc/base/os.h"
#include "liballoc/base/signal_guard.h"
#include "liballoc/heap/heap.h"
#include "liballoc/lifetimes/repeats/tokens.h"
#include "liballoc/process/startup.h"
#include "liballoc/terrace.h"

using terrace::liballoc::ensure_started;
using terrace::liballoc::heap;

namespace {

constexpr std::size_t default_alignment = 64;
constexpr std::uint64_t poll_pause_ns = 200'000;

bool is_power_of_two(std::size_t value) { return value != 0 && (value & (value - 1)) == 0; }

bool is_quiet() {
  const terrace::liballoc::InsideGate gate(heap().guarded());
  return heap().pager().is_quiet();
}

// Of a mark; 0 only of one without a name. Eight bytes at a time.
std::uint64_t number_of_name(const char* name, std::size_t bytes) {
  std::uint64_t number = bytes;
  for (std::size_t at = 0; at < bytes; at += sizeof(std::uint64_t)) {
    std::uint64_t part = 0;
    std::memcpy(&part, name + at, std::min(bytes - at, sizeof(part)));
    number = terrace::liballoc::mixed(number ^ part) + 1;
  }
  return bytes == 0 ? 0 : number | 1U;
}

// What is not there comes.
void touch(const void* address, std::size_t bytes) {
  const auto* at = static_cast<const volatile char*>(address);
  for (std::size_t offset = 0; offset < bytes; offset += terrace::os::page_bytes)
    static_cast<void>(at[offset]);
  if (bytes != 0) static_cast<void>(at[bytes - 1]);
}

// Copies at most the size that the caller's struct has.
template <typename Struct>
int copy_out(const Struct& full, Struct* out) {
  if (out == nullptr || out->size < sizeof(std::size_t)) return -EINVAL;
  const std::size_t bytes = out->size < sizeof(Struct) ? out->size : sizeof(Struct);
  std::memcpy(out, &full, bytes);
  out->size = bytes;
  return 0;
}

}  // namespace

void* terrace_alloc(size_t bytes, size_t alignment, unsigned hints) {
  constexpr unsigned known = TERRACE_HINT_LONG_LIVED | TERRACE_HINT_COLD | TERRACE_HINT_PINNED;
  if (alignment == 0) alignment = default_alignment;
  if (!is_power_of_two(alignment) || (hints & ~known) != 0) {
    errno = EINVAL;
    return nullptr;
  }
  void* block = ensure_started()
                    ? heap().allocate(bytes, alignment, __builtin_return_address(0), false, hints)
                    : nullptr;
  if (block != nullptr && (hints & TERRACE_HINT_PINNED) != 0 &&
      terrace_pin(block, bytes == 0 ? 1 : bytes) != 0) {
    heap().release(block, __builtin_return_address(0));
    block = nullptr;
  }
  if (block == nullptr) errno = ENOMEM;
  return block;
}

void terrace_free(void* block) {
  if (block != nullptr) heap().release(block, __builtin_return_address(0));
}

int terrace_owns(const void* address) { return heap().owns_block(address) ? 1 : 0; }

int terrace_pin(const void* address, size_t bytes) {
  const int error = heap().ready() ? heap().pins().pin(address, bytes) : EINVAL;
  if (error == 0) touch(address, bytes);
  return -error;
}

int terrace_unpin(const void* address, size_t bytes) {
  return heap().ready() ? -heap().pins().unpin(address, bytes) : -EINVAL;
}

int terrace_advise(const void* address, size_t bytes, enum terrace_advice advice) {
  if (advice < TERRACE_ADVISE_WILL_NEED || advice > TERRACE_ADVISE_PAGE_OUT || !heap().ready())
    return -EINVAL;
  return -heap().advice().advise(address, bytes, advice);
}

int terrace_prefetch(const void* address, size_t bytes) {
  const int error = terrace_advise(address, bytes, TERRACE_ADVISE_WILL_NEED);
  if (error == -EINVAL) return error;
  touch(address, bytes);
  return 0;
}

// The heap is not brought up for it: without blocks there are no steps.
int terrace_mark(const char* name) {
  const std::size_t bytes = name != nullptr ? strnlen(name, TERRACE_MARK_NAME_MAX + 1) : 0;
  if (bytes > TERRACE_MARK_NAME_MAX) return -ENAMETOOLONG;
  return heap().ready() ? -heap().blocks().mark(number_of_name(name, bytes)) : 0;
}

int terrace_quiesce(unsigned timeout_ms) {
  if (!heap().ready()) return 0;
  const std::uint64_t deadline = terrace::os::now_ns() + timeout_ms * 1'000'000ULL;
  constexpr std::uint32_t never = 0;
  while (!is_quiet()) {
    if (timeout_ms != 0 && terrace::os::now_ns() >= deadline) return -ETIMEDOUT;
    heap().waker().kick();
    terrace::os::futex_wait_for(&never, 0, poll_pause_ns);
  }
  return 0;
}

size_t terrace_trim(void) { return heap().ready() ? heap().trim() : 0; }

int terrace_get_statistics(struct terrace_statistics* out) {
  struct terrace_statistics full {};
  if (heap().ready()) heap().accounts().read(&full);
  return copy_out(full, out);
}

int terrace_get_status(struct terrace_status* out) {
  struct terrace_status full {};
  const auto& agent = heap().agent();
  full.pager = agent.availability().state();
  full.reason = heap().ready() ? agent.availability().reason() : "the heap has not been used";
  full.mover = agent.mover().name();
  full.io = agent.io();
  return copy_out(full, out);
}

const char* terrace_version(void) { return TERRACE_VERSION_STRING; }
