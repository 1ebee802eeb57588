// terrace-first-touch: threads that touch fresh memory, and what another thread waits for meanwhile.
//
// The program behind `terrace bench first-touch`, which runs it stock and under `terrace run`; it knows
// nothing of Terrace. All threads begin at once; each takes blocks until it has its share, writes one byte to
// every page, and keeps them. With a probe one more thread calls fork() or malloc(1 MiB) once a millisecond
// until the storm is over and notes the longest call; what it got is given back outside of the time. The
// thread that probes malloc runs at real-time priority where it may: else the longest call is a time slice of
// those that touch, whatever malloc does. The process's first call is made before.
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tools/bench/measuring/measure.h"

namespace terrace::bench {
namespace {

constexpr const char* usage = R"(usage: terrace-first-touch [options]

Touches fresh memory with several threads, and prints one line of JSON.

  --threads N      touch with so many threads, 256 at most (1)
  --mib N          touch so many MiB in all (1536)
  --block-mib N    in blocks of so many MiB, 1024 at most (64)
  --probe NAME     meanwhile another thread forks, or allocates: none, fork or malloc (none))";

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr std::size_t page_bytes = 4096;

struct Share {
  std::size_t bytes;
  std::size_t block_bytes;
};

// The compiler must believe that the memory is used.
void* used(void* block) {
  asm volatile("" : "+r"(block) : : "memory");
  return block;
}

// Returns the pages touched.
std::size_t touch_fresh(const Share& share, std::vector<void*>* blocks) {
  std::size_t pages = 0;
  for (std::size_t done = 0; done < share.bytes; done += share.block_bytes) {
    const std::size_t bytes = std::min(share.block_bytes, share.bytes - done);
    auto* block = static_cast<volatile unsigned char*>(used(std::malloc(bytes)));
    if (block == nullptr)
      throw std::runtime_error("no memory for a block of " + std::to_string(bytes) + " bytes");
    blocks->push_back(const_cast<unsigned char*>(block));
    for (std::size_t at = 0; at < bytes; at += page_bytes, ++pages) block[at] = 1;
  }
  return pages;
}

double fork_seconds() {
  const double start = now_s();
  const pid_t child = fork();
  if (child == 0) _exit(0);
  const double spent = now_s() - start;
  if (child < 0) throw std::runtime_error("fork failed");
  waitpid(child, nullptr, 0);
  return spent;
}

double malloc_seconds() {
  const double start = now_s();
  void* block = used(std::malloc(mib));
  const double spent = now_s() - start;
  std::free(block);
  return spent;
}

struct Probe {
  double longest_s = 0;
  long calls = 0;
  bool is_preferred = false;
};

bool prefer_this_thread() {
  sched_param parameter{};
  parameter.sched_priority = sched_get_priority_min(SCHED_FIFO);
  return pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameter) == 0;
}

void probe_until(const std::atomic<bool>& over, double (*call)(), Probe* probe) {
  probe->is_preferred = call == malloc_seconds && prefer_this_thread();
  while (!over.load()) {
    probe->longest_s = std::max(probe->longest_s, call());
    ++probe->calls;
    usleep(1000);
  }
}

struct Storm {
  double seconds = 0;
  std::size_t pages = 0;
};

struct Toucher {
  double start_s = 0, end_s = 0;
  std::size_t pages = 0;
  std::vector<void*> blocks;
};

void touch_share(std::latch* ready, const Share& share, Toucher* toucher) {
  ready->arrive_and_wait();
  toucher->start_s = now_s();
  toucher->pages = touch_fresh(share, &toucher->blocks);
  toucher->end_s = now_s();
}

// From the first thread's beginning to the last one's end: whoever waits for them may itself wake up late.
Storm storm(std::size_t threads, const Share& share) {
  std::latch ready(static_cast<std::ptrdiff_t>(threads));
  std::vector<Toucher> touchers(threads);
  std::vector<std::thread> running;
  running.reserve(threads);
  for (Toucher& toucher : touchers) running.emplace_back(touch_share, &ready, share, &toucher);
  for (std::thread& thread : running) thread.join();
  double start_s = touchers[0].start_s, end_s = 0;
  Storm result;
  for (const Toucher& toucher : touchers) {
    start_s = std::min(start_s, toucher.start_s);
    end_s = std::max(end_s, toucher.end_s);
    result.pages += toucher.pages;
    for (void* block : toucher.blocks) std::free(block);
  }
  result.seconds = end_s - start_s;
  return result;
}

int run(const Arguments& arguments) {
  const auto threads = static_cast<std::size_t>(arguments.number("--threads", 1, 1, 256));
  const Share share{static_cast<std::size_t>(arguments.number("--mib", 1536, 1, 1048576)) * mib / threads,
                    static_cast<std::size_t>(arguments.number("--block-mib", 64, 1, 1024)) * mib};
  const std::string name = arguments.text("--probe", "none");
  if (name != "none" && name != "fork" && name != "malloc") {
    std::fprintf(stderr, "terrace-first-touch: --probe %s: none, fork or malloc\n", name.c_str());
    return 2;
  }
  std::free(used(std::malloc(mib)));  // the first call of a process may set things up
  Probe probe;
  std::atomic<bool> over = false;
  std::thread prober;
  if (name != "none")
    prober = std::thread([&] { probe_until(over, name == "fork" ? fork_seconds : malloc_seconds, &probe); });
  const Storm result = storm(threads, share);
  over = true;
  if (prober.joinable()) prober.join();
  nlohmann::json line = {{"threads", threads},
                         {"seconds", result.seconds},
                         {"touched_pages", result.pages},
                         {"touched_bytes", result.pages * page_bytes}};
  if (name != "none")
    line.update({{"longest_" + name + "_seconds", probe.longest_s},
                 {name + "_calls", probe.calls},
                 {"real_time_probe", probe.is_preferred}});
  std::printf("%s\n", line.dump().c_str());
  return 0;
}

}  // namespace
}  // namespace terrace::bench

int main(int argc, char** argv) try {
  using namespace terrace::bench;  // NOLINT: this is their program
  return run(Arguments(argc, argv, {"--threads", "--mib", "--block-mib", "--probe"}, usage));
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  return 1;
}
