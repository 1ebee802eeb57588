// A mover with a few runs of heap and a few frames, in whichever way the machine has.
//
// A test of the mover is the agent: it must not touch a run that is taken, other threads may.
#pragma once

#include <poll.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "liballoc/paging/mover/mover.h"
#include "tests/liballoc/support.h"

namespace terrace::liballoc::test {

// Every way of taking pages, one after the other.
inline MoverKind any_kind() { return GENERATE(MoverKind::move, MoverKind::mremap); }

inline const char* word_of(MoverKind kind) {
  switch (kind) {
    case MoverKind::move:
      return "move";
    case MoverKind::mremap:
      return "mremap";
    case MoverKind::automatic:
      break;
  }
  return "auto";
}

// Opens the mover or says why the test is skipped.
inline bool open_or_skip(Mover& mover, MoverKind kind) {
  const int error = mover.open(kind, -1);
  if (error != 0) {
    std::printf("SKIP: this machine cannot take pages by %s, errno %d\n", word_of(kind), error);
  }
  return error == 0;
}

class MoverFixture {
 public:
  static constexpr std::size_t runs = 8;

  // `before_watch` prepares heap memory as it was before paging began.
  explicit MoverFixture(MoverKind kind, const std::function<void(std::byte*)>& before_watch = nullptr)
      : heap_(runs * run_bytes), frames_(runs * run_bytes) {
    if (!open_or_skip(mover, kind)) return;
    os::advise(frames_.base(), runs * run_bytes, MADV_DONTFORK);
    if (before_watch) before_watch(heap_.base());
    ready_ = mover.adopt_frames(frames_.base(), runs * run_bytes) == 0 &&
             mover.watch(heap_.base(), runs * run_bytes) == 0;
    if (!ready_) std::abort();
  }
  ~MoverFixture() {
    if (mover.fd() >= 0) mover.close();
  }

  bool ready() const { return ready_; }
  std::byte* run(std::size_t i) const { return heap_.base() + i * run_bytes; }
  std::byte* frame(std::size_t i) const { return frames_.base() + i * run_bytes; }

  // Fresh memory under run i, through frame i, as the pager does it.
  int back(std::size_t i, std::uint64_t seed) {
    if (const int error = mover.populate(frame(i)); error != 0) return error;
    fill(frame(i), seed);
    bool keeps = false;
    const int error = mover.put(frame(i), run(i), &keeps);
    if (keeps) os::advise(frame(i), run_bytes, MADV_DONTNEED);
    os::advise(run(i), run_bytes,
               MADV_DOFORK);  // what remapping brought along; the pager shows its heap, too
    return error;
  }
  int try_take(std::size_t i, bool may_have_holes = true) {
    return mover.take(run(i), frame(i), may_have_holes);
  }
  // As the pager, which asks again later: the kernel itself holds a page for a moment now and then
  // (compaction, reclaim, the splitting of huge pages). EBUSY: refused for a second.
  int take(std::size_t i, bool may_have_holes = true) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    int error = try_take(i, may_have_holes);
    while (error == EBUSY && std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
      error = try_take(i, may_have_holes);
    }
    return error;
  }
  int put(std::size_t i) {
    bool keeps = false;
    const int error = mover.put(frame(i), run(i), &keeps);
    if (keeps) os::advise(frame(i), run_bytes, MADV_DONTNEED);
    os::advise(run(i), run_bytes,
               MADV_DOFORK);  // what remapping brought along; the pager shows its heap, too
    return error;
  }

  // Waits up to 30 s for a touch of a missing page.
  bool await_fault(Fault* fault) {
    pollfd waiting{mover.fd(), POLLIN, 0};
    return ::poll(&waiting, 1, 30'000) == 1 && mover.next_fault(fault);
  }

  Mover mover;

 private:
  Region heap_;
  Region frames_;
  bool ready_ = false;
};

// Makes page `page` of 4 KiB the only one of a run that has memory.
inline void touch_one_page(std::byte* run, std::size_t page) {
  os::advise(run, run_bytes, MADV_NOHUGEPAGE);
  fill(run + page * os::page_bytes, 5, os::page_bytes);
}

// Touches memory in a thread of its own.
class Toucher {
 public:
  explicit Toucher(const std::function<void()>& touch)
      : thread_([this, touch] {
          touch();
          done_.store(true);
        }) {}
  ~Toucher() { join(); }
  bool done() const { return done_.load(); }
  void join() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::atomic<bool> done_{false};
  std::thread thread_;
};

// Bytes of [address, address + run_bytes) that are mapped by huge pages. The kernel counts per mapping, so
// the range is set apart by a protection of its own while it is looked at.
inline std::size_t huge_bytes(std::byte* address) {
  os::protect(address, run_bytes, PROT_READ);
  std::FILE* smaps = std::fopen("/proc/self/smaps", "re");
  if (smaps == nullptr) std::abort();
  char line[512];
  std::size_t kilobytes = 0;
  bool here = false;
  while (std::fgets(line, sizeof line, smaps) != nullptr) {
    unsigned long begin = 0;
    unsigned long end = 0;
    const auto wanted = reinterpret_cast<std::uintptr_t>(address);
    if (std::sscanf(line, "%lx-%lx ", &begin, &end) == 2) here = begin == wanted && end == wanted + run_bytes;
    if (here) std::sscanf(line, "AnonHugePages: %zu kB", &kilobytes);
  }
  std::fclose(smaps);
  os::protect(address, run_bytes, PROT_READ | PROT_WRITE);
  return kilobytes * kib;
}

inline std::size_t resident_pages(std::byte* address) {
  unsigned char pages[run_bytes / os::page_bytes];
  if (::mincore(address, run_bytes, pages) != 0) return 0;
  std::size_t count = 0;
  for (const unsigned char page : pages) count += page & 1U;
  return count;
}

}  // namespace terrace::liballoc::test
