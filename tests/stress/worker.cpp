#include "tests/stress/worker.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <random>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "liballoc/terrace.h"
#include "tests/stress/page_table.h"

extern char** environ;

namespace terrace::stress {
namespace {

constexpr unsigned child_limit_seconds = 120;
constexpr int exit_wrong = 1;

std::atomic<std::uint64_t> totals[counts];
std::atomic<std::uint64_t> next_number{1};
std::atomic<bool> stop{false};
// Held shared during a step, alone by a fork whose child checks the blocks of all.
std::shared_mutex all_between_steps;

class Worker;
std::vector<Worker*> workers;

void add(Count which, std::uint64_t n = 1) { totals[which].fetch_add(n, std::memory_order_relaxed); }

[[noreturn]] void report_and_exit(const char* where, unsigned thread, std::uint64_t seed, const Block& block,
                                  const Mismatch& bad) {
  std::fprintf(stderr,
               "WRONG BYTES in %s: thread %u, seed %" PRIu64 ", process %d, block %" PRIu64
               " at %p of %zu bytes, page %zu "
               "(address %p) of generation %u, word %zu: found %016" PRIx64 ", expected %016" PRIx64 "\n",
               where, thread, seed, getpid(), block.number(), static_cast<void*>(block.memory()),
               block.bytes(), bad.page, static_cast<void*>(block.memory() + bad.page * page_bytes),
               block.generation(bad.page), bad.word, bad.found, bad.expected);
  const Damage damage = block.survey();
  std::fprintf(stderr, "  in all %zu of its %zu pages are wrong, %zu of them zero, from page %zu to %zu\n",
               damage.wrong, block.pages(), damage.zero, damage.first, damage.last);
  _Exit(exit_wrong);
}

[[noreturn]] void give_up(const char* what, unsigned thread) {
  std::fprintf(stderr, "FAILED: %s: thread %u, process %d, errno %d\n", what, thread, getpid(), errno);
  _Exit(exit_wrong);
}

class Worker {
 public:
  Worker(const Settings& settings, unsigned thread)
      : seed_(settings.seed),
        thread_(thread),
        limit_(settings.bytes / settings.threads),
        random_(settings.seed * 1000 + thread) {}

  void run() {
    while (!stop.load(std::memory_order_relaxed)) {
      if (below(200) == 0) {
        fork_with_all();
        continue;
      }
      const std::shared_lock<std::shared_mutex> guard(all_between_steps);
      step();
    }
    const std::shared_lock<std::shared_mutex> guard(all_between_steps);
    check_everything("the last check");
    while (!blocks_.empty()) release(blocks_.size() - 1);
  }

  void check_everything(const char* where) const {
    for (const Block& block : blocks_) {
      Mismatch bad;
      if (!block.check_all(&bad)) report_and_exit(where, thread_, seed_, block, bad);
    }
  }

  // In a forked child: what is written here must not be seen by the parent.
  void scribble() {
    for (Block& block : blocks_) block.write(0, block.pages() < 64 ? block.pages() : 64);
    if (!blocks_.empty()) std::memset(pick().memory(), 0xEE, page_bytes);
  }

 private:
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  Block& pick() { return blocks_[below(blocks_.size())]; }

  std::size_t random_size() {
    const std::size_t scale = smallest_block << below(9);  // to 64 MiB, small ones as often as large ones
    const std::size_t bytes = scale / 2 + below(scale);
    const std::size_t clamped = bytes < smallest_block  ? smallest_block
                                : bytes > largest_block ? largest_block
                                                        : bytes;
    return clamped / page_bytes * page_bytes;
  }

  void step() {
    const std::uint64_t choice = below(100);
    if (blocks_.empty() || choice < 12) return allocate();
    if (choice < 20) return release(below(blocks_.size()));
    if (choice < 25) return resize();
    if (choice < 55) return read();
    if (choice < 80) return write();
    if (choice < 92) return advise();
    if (choice < 96) return pin();
    if (choice < 98) return fork_alone();
    spawn();
  }

  void allocate() {
    const std::size_t bytes = random_size();
    while (!blocks_.empty() && held_ + bytes > limit_) release(below(blocks_.size()));
    const bool zero = below(4) == 0;
    auto* memory = static_cast<unsigned char*>(zero ? std::calloc(bytes / 16, 16) : std::malloc(bytes));
    if (memory == nullptr) give_up("malloc", thread_);
    Block block(memory, bytes, next_number.fetch_add(1));
    if (zero) check_zero(block);
    block.write_all();
    add(allocated);
    held_ += bytes;
    blocks_.push_back(std::move(block));
  }

  void check_zero(const Block& block) const {
    const auto* words = reinterpret_cast<const std::uint64_t*>(block.memory());
    for (std::size_t i = 0; i < block.bytes() / sizeof(std::uint64_t); ++i) {
      if (words[i] != 0)
        report_and_exit("calloc", thread_, seed_, block, {i * 8 / page_bytes, i % 512, words[i], 0});
    }
    add(zeroed);
  }

  void release(std::size_t index) {
    Block& block = blocks_[index];
    Mismatch bad;
    if (below(2) == 0 && !block.check_all(&bad)) report_and_exit("free", thread_, seed_, block, bad);
    std::free(block.memory());
    held_ -= block.bytes();
    block = std::move(blocks_.back());
    blocks_.pop_back();
    add(freed);
  }

  void resize() {
    Block& block = pick();
    const std::size_t bytes = random_size();
    if (held_ + bytes > limit_ + block.bytes()) return;
    auto* memory = static_cast<unsigned char*>(std::realloc(block.memory(), bytes));
    if (memory == nullptr) give_up("realloc", thread_);
    held_ += bytes - block.bytes();
    block.moved_to(memory, bytes);
    Mismatch bad;
    if (!block.check_all(&bad)) report_and_exit("realloc", thread_, seed_, block, bad);
    add(resized);
  }

  // A few scattered pages, or a stretch of the block.
  void read() {
    const Block& block = pick();
    const std::size_t count = below(3) == 0 ? 1 + below(block.pages()) : 1;
    const std::size_t repeats = count == 1 ? 16 : 1;
    for (std::size_t i = 0; i < repeats; ++i) {
      const std::size_t first = below(block.pages() - count + 1);
      Mismatch bad;
      if (!block.check(first, count, &bad)) report_and_exit("read", thread_, seed_, block, bad);
    }
    add(pages_read, count * repeats);
  }

  void write() {
    Block& block = pick();
    const std::size_t count = below(3) == 0 ? 1 + below(block.pages()) : 1;
    const std::size_t first = below(block.pages() - count + 1);
    Mismatch bad;
    if (!block.check(first, count, &bad)) report_and_exit("write", thread_, seed_, block, bad);
    block.write(first, count);
    add(pages_written, count);
  }

  void advise() {
    const Block& block = pick();
    const std::size_t first = below(block.pages());
    const std::size_t bytes = (block.pages() - first) * page_bytes;
    constexpr terrace_advice kinds[] = {TERRACE_ADVISE_WILL_NEED, TERRACE_ADVISE_COLD,
                                        TERRACE_ADVISE_PAGE_OUT};
    const int result = terrace_advise(block.memory() + first * page_bytes, bytes, kinds[below(3)]);
    if (result != 0 && result != -ENOTSUP && result != -EINVAL) give_up("terrace_advise", thread_);
    add(advised);
  }

  void pin() {
    const Block& block = pick();
    const std::size_t bytes = block.bytes() < (4UL << 20) ? block.bytes() : 4UL << 20;
    if (terrace_pin(block.memory(), bytes) != 0) return;  // the budget may be too small for it
    Mismatch bad;
    if (!block.check(0, bytes / page_bytes, &bad)) report_and_exit("pin", thread_, seed_, block, bad);
    if (terrace_unpin(block.memory(), bytes) != 0) give_up("terrace_unpin", thread_);
    add(pinned);
  }

  void wait_for(pid_t child) const {
    int status = 0;
    while (waitpid(child, &status, 0) != child) {
      if (errno != EINTR) give_up("waitpid", thread_);
    }
    if (status == 0) return;
    std::fprintf(stderr, "a child ended with wait status %d\n", status);
    _Exit(exit_wrong);
  }

  [[noreturn]] void be_child(const std::vector<Worker*>& checked) {
    alarm(child_limit_seconds);
    for (const Worker* worker : checked) worker->check_everything("a forked child");
    for (Worker* worker : checked) worker->scribble();
    auto* memory = static_cast<unsigned char*>(std::malloc(smallest_block));
    if (memory == nullptr) give_up("malloc in a child", thread_);
    Block own(memory, smallest_block, next_number.load() + 1'000'000);
    own.write_all();
    Mismatch bad;
    if (!own.check_all(&bad)) report_and_exit("a child's own block", thread_, seed_, own, bad);
    std::free(memory);
    _Exit(0);
  }

  void fork_alone() {
    const pid_t child = fork();
    if (child < 0) give_up("fork", thread_);
    if (child == 0) be_child({this});
    check_some("after fork");
    wait_for(child);
    add(forked);
  }

  void fork_with_all() {
    pid_t child = -1;
    {
      const std::unique_lock<std::shared_mutex> guard(all_between_steps);
      child = fork();
      if (child == 0) be_child(workers);
    }
    if (child < 0) give_up("fork", thread_);
    wait_for(child);
    add(forked_all);
  }

  void check_some(const char* where) {
    const Block& block = pick();
    Mismatch bad;
    if (!block.check_all(&bad)) report_and_exit(where, thread_, seed_, block, bad);
  }

  void spawn() {
    const pid_t child = below(2) == 0 ? spawn_true() : vfork_true();
    if (child < 0) give_up("spawn", thread_);
    wait_for(child);
    add(spawned);
  }

  static pid_t spawn_true() {
    char name[] = "true";
    char* const arguments[] = {name, nullptr};
    pid_t child = -1;
    return posix_spawn(&child, "/bin/true", nullptr, nullptr, arguments, environ) == 0 ? child : -1;
  }

  static pid_t vfork_true() {
    const pid_t child = vfork();
    if (child == 0) {
      execl("/bin/true", "true", nullptr);
      _exit(127);
    }
    return child;
  }

  std::uint64_t seed_;
  unsigned thread_;
  std::size_t limit_;
  std::size_t held_ = 0;
  std::mt19937_64 random_;
  std::vector<Block> blocks_;
};

}  // namespace

void run(const Settings& settings) {
  std::vector<Worker> all;
  all.reserve(settings.threads);
  for (unsigned t = 0; t < settings.threads; ++t) all.emplace_back(settings, t);
  for (Worker& worker : all) workers.push_back(&worker);
  std::vector<std::thread> threads;
  threads.reserve(all.size());
  for (Worker& worker : all) threads.emplace_back([&worker] { worker.run(); });
  signal(SIGTERM, [](int) { stop = true; });
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(settings.seconds);
  while (!stop && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

std::uint64_t total(Count which) { return totals[which].load(); }

}  // namespace terrace::stress
