// The mover against the program: threads count in the pages of a run each, while this process takes the runs
// out and puts them back as fast as it can, and children that share the pages come and go.
//
//   terrace-mover-race [--seconds N] [--mover move|mremap]
//
// One round in a few thousand meets a write that breaks a page's sharing in the very moment in which the
// kernel moves it; that is a thousand times as often as in a job. After every take the run must be empty and
// the frame whole, after every put the reverse, and every counter must be what its thread last wrote. Exit
// status: 0 all was right, 1 something was not, 2 wrong usage, 77 this machine cannot move pages so.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "liballoc/base/os.h"
#include "liballoc/heap/space/address_space.h"
#include "liballoc/paging/mover/mover.h"

namespace terrace::stress {
namespace {

using liballoc::Mover;
using liballoc::MoverKind;
using liballoc::run_bytes;

constexpr std::size_t runs = 2;
constexpr std::size_t frames = 8;
constexpr std::size_t pages = run_bytes / os::page_bytes;
constexpr std::size_t most_children = 4;

std::atomic<bool> stop{false};

[[noreturn]] void fail(const char* what, std::size_t which, std::int64_t detail) {
  std::fprintf(stderr, "WRONG: %s, run %zu, %" PRId64 "\n", what, which, detail);
  _Exit(1);
}

std::byte* map_runs(std::size_t count) {
  auto* area = static_cast<std::byte*>(os::map_anonymous((count + 1) * run_bytes, PROT_READ | PROT_WRITE));
  if (area == nullptr) fail("no memory", 0, errno);
  area += (run_bytes - reinterpret_cast<std::uintptr_t>(area) % run_bytes) % run_bytes;
  os::advise(area, count * run_bytes, MADV_HUGEPAGE);
  return area;
}

std::size_t pages_there(std::byte* run) {
  std::array<unsigned char, pages> there{};
  syscall(SYS_mincore, run, run_bytes, there.data());
  std::size_t count = 0;
  for (const unsigned char page : there) count += page & 1U;
  return count;
}

// Counts on, in stretches of pages here and there: one word of each page is what was written to it last.
void count_in(std::byte* run, std::size_t number) {
  std::array<std::uint64_t, pages> expected{};
  std::mt19937_64 random(number);
  while (!stop.load(std::memory_order_relaxed)) {
    const std::size_t first = random() % pages;
    const std::size_t count = random() % 3 == 0 ? pages : 1 + random() % 64;
    for (std::size_t i = first; i < first + count; ++i) {
      const std::size_t page = i % pages;
      auto* word = reinterpret_cast<volatile std::uint64_t*>(run + page * os::page_bytes + 56);
      if (*word != expected[page]) fail("a counter", number, static_cast<std::int64_t>(page));
      *word = ++expected[page];
    }
  }
}

class Race {
 public:
  int open(MoverKind kind) {
    os::advise(frames_, frames * run_bytes, MADV_DONTFORK);
    if (const int error = mover_.open(kind, -1); error != 0) return error;
    if (const int error = mover_.watch(heap_, runs * run_bytes); error != 0) return error;
    if (const int error = mover_.adopt_frames(frames_, frames * run_bytes); error != 0) return error;
    for (std::size_t run = 0; run < runs; ++run) {
      if (const int error = mover_.populate(frame(run)); error != 0) return error;
      put(run, frame(run));
    }
    return 0;
  }

  void run(double seconds) {
    std::vector<std::thread> writers;
    for (std::size_t n = 0; n < runs; ++n) writers.emplace_back([this, n] { count_in(place(n), n); });
    const std::uint64_t end = os::now_ns() + static_cast<std::uint64_t>(seconds * 1e9);
    while (os::now_ns() < end) round();
    stop = true;
    std::atomic<std::size_t> ended{0};
    std::thread joiner([&] {
      for (std::thread& writer : writers) {
        writer.join();
        ++ended;
      }
    });
    while (ended < writers.size()) serve();
    joiner.join();
    while (!children_.empty()) reap(0);
  }

  void print() const {
    std::printf("%" PRIu64 " takes, %" PRIu64 " refused, %" PRIu64 " puts by copy, %" PRIu64
                " faults, %" PRIu64 " children: all right\n",
                takes_, refused_, copies_, faults_, forks_);
  }

 private:
  std::byte* place(std::size_t run) const { return heap_ + run * run_bytes; }
  std::byte* frame(std::size_t n) const { return frames_ + n * run_bytes; }

  void round() {
    const std::size_t run = random_() % runs;
    std::byte* to = frame(random_() % frames);
    const int error = mover_.take(place(run), to, false);
    if (error == 0) {
      ++takes_;
      if (mover_.fills_holes() && pages_there(to) != pages) fail("a frame is not whole", run, 0);
      if (pages_there(place(run)) != 0) fail("a run is not empty", run, 0);
      if (random_() % 4 == 0) pause(random_() % 50'000);
      put(run, to);
    } else if (error == EBUSY || error == EAGAIN) {
      ++refused_;
    } else {
      fail("take failed", run, error);
    }
    serve();
    if (random_() % 200 == 0 && children_.size() < most_children) fork_one();
    reap(WNOHANG);
  }

  void put(std::size_t run, std::byte* from) {
    bool keeps = false;
    if (const int error = mover_.put(from, place(run), &keeps); error != 0) fail("put failed", run, error);
    if (keeps) {
      ++copies_;
      os::advise(from, run_bytes, MADV_DONTNEED);
    }
    if (pages_there(place(run)) != pages) fail("a run is not whole", run, 0);
    if (pages_there(from) != 0) fail("a frame is not empty", run, 0);
  }

  void serve() {
    liballoc::Fault fault{};
    while (mover_.next_fault(&fault)) {
      ++faults_;
      if (!Mover::has_page(fault.address)) fail("a page vanished", 0, (fault.address - heap_) / 4096);
      mover_.zero_page(fault.address);
    }
  }

  static void pause(std::uint64_t ns) {
    const timespec time{0, static_cast<long>(ns)};
    nanosleep(&time, nullptr);
  }

  // Shares the runs for a while, then writes to some of its own.
  void fork_one() {
    const std::uint64_t life_ns = random_() % 20'000'000;
    const pid_t child = fork();
    if (child == 0) {
      pause(life_ns);
      std::memset(heap_, 0xEE, 40 * os::page_bytes);
      _Exit(0);
    }
    if (child < 0) fail("fork", 0, errno);
    children_.push_back(child);
    ++forks_;
  }

  void reap(int options) {
    std::erase_if(children_, [&](pid_t child) { return waitpid(child, nullptr, options) == child; });
  }

  std::byte* heap_ = map_runs(runs);
  std::byte* frames_ = map_runs(frames);
  Mover mover_;
  std::mt19937_64 random_{1};
  std::vector<pid_t> children_;
  std::uint64_t takes_ = 0;
  std::uint64_t refused_ = 0;
  std::uint64_t copies_ = 0;
  std::uint64_t faults_ = 0;
  std::uint64_t forks_ = 0;
};

}  // namespace
}  // namespace terrace::stress

int main(int argc, char** argv) {
  using terrace::liballoc::MoverKind;
  double seconds = 10;
  MoverKind kind = MoverKind::move;
  bool usage_is_right = argc % 2 == 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    const std::string value = argv[i + 1];
    if (option == "--seconds") {
      seconds = std::atof(value.c_str());
    } else if (option == "--mover" && (value == "move" || value == "mremap")) {
      kind = value == "move" ? MoverKind::move : MoverKind::mremap;
    } else {
      usage_is_right = false;
    }
  }
  if (!usage_is_right || seconds <= 0) {
    std::fprintf(stderr, "usage: terrace-mover-race [--seconds N] [--mover move|mremap]\n");
    return 2;
  }
  alarm(static_cast<unsigned>(seconds) + 120);  // a hang ends by SIGALRM
  terrace::stress::Race race;
  if (const int error = race.open(kind); error != 0) {
    std::printf("SKIP: this machine cannot take pages so, errno %d\n", error);
    return 77;
  }
  race.run(seconds);
  race.print();
  return 0;
}
