#include "tools/bench/malloc/heap.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "liballoc/terrace.h"
#include "tools/bench/measuring/measure.h"

namespace terrace::bench {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr std::size_t held_block_bytes = 64 * mib;
constexpr std::size_t smallest_block_bytes = mib;
constexpr int exchanges = 500;  // of each thread

// What one thread holds and has waited for.
struct Worker {
  std::vector<void*> held;
  std::vector<double> fill_ns, malloc_ns, free_ns, clear_ns;
  std::size_t refused = 0;
};

template <typename Call>
void timed(std::vector<double>* ns, Call call) {
  const double start = now_s();
  call();
  ns->push_back((now_s() - start) * 1e9);
}

void* allocate(Worker* worker, std::vector<double>* ns, std::size_t bytes) {
  void* block = nullptr;
  timed(ns, [&] { block = std::malloc(bytes); });
  asm volatile("" : "+r"(block) : : "memory");
  worker->refused += block == nullptr ? 1 : 0;
  return block;
}

void fill(Worker* worker, std::size_t blocks) {
  for (std::size_t i = 0; i < blocks; ++i)
    worker->held.push_back(allocate(worker, &worker->fill_ns, held_block_bytes));
}

// Sizes of 1 to 64 MiB, another sequence for each thread.
void exchange(Worker* worker, std::size_t seed) {
  std::uint64_t random = seed * 2 + 1;
  for (int i = 0; i < exchanges; ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    void* block = allocate(worker, &worker->malloc_ns, smallest_block_bytes * (1 + (random >> 58)));
    timed(&worker->free_ns, [&] { std::free(block); });
  }
}

void clear(Worker* worker) {
  for (void* block : worker->held) timed(&worker->clear_ns, [&] { std::free(block); });
  worker->held.clear();
}

// Runs `work(i)` in as many threads, which begin at once. Returns the seconds from the first one's beginning
// to the last one's end.
double in_threads(std::size_t threads, const std::function<void(std::size_t)>& work) {
  std::latch ready(static_cast<std::ptrdiff_t>(threads));
  std::vector<double> start_s(threads), end_s(threads);
  std::vector<std::thread> running;
  running.reserve(threads);
  for (std::size_t i = 0; i < threads; ++i)
    running.emplace_back([&, i] {
      ready.arrive_and_wait();
      start_s[i] = now_s();
      work(i);
      end_s[i] = now_s();
    });
  for (std::thread& thread : running) thread.join();
  return *std::max_element(end_s.begin(), end_s.end()) - *std::min_element(start_s.begin(), start_s.end());
}

// Live bytes of Terrace's heap; 0 where it is not loaded.
std::uint64_t heap_live_bytes() {
  const auto ask =
      reinterpret_cast<decltype(&terrace_get_statistics)>(dlsym(RTLD_DEFAULT, "terrace_get_statistics"));
  terrace_statistics statistics{};
  statistics.size = sizeof statistics;
  return ask != nullptr && ask(&statistics) == 0 ? statistics.heap_live_bytes : 0;
}

void add(nlohmann::ordered_json* result, const std::string& name, const std::vector<Worker>& workers,
         std::vector<double> Worker::*ns) {
  std::vector<double> all;
  for (const Worker& worker : workers) all.insert(all.end(), (worker.*ns).begin(), (worker.*ns).end());
  (*result)[name + ", median"] = median(all);
  (*result)[name + ", p99"] = percentile(all, 0.99);
  (*result)[name + ", longest"] = percentile(all, 1);
}

}  // namespace

nlohmann::ordered_json measure_simulated_heap(std::size_t bytes, std::size_t threads) {
  // What the exchanges need at most at once is part of the sum.
  const std::size_t blocks = std::max(bytes / held_block_bytes, 2 * threads) / threads - 1;
  std::vector<Worker> workers(threads);
  in_threads(threads, [&](std::size_t i) { fill(&workers[i], blocks); });
  const double in_heap = static_cast<double>(heap_live_bytes());
  const double seconds = in_threads(threads, [&](std::size_t i) { exchange(&workers[i], i); });
  in_threads(threads, [&](std::size_t i) { clear(&workers[i]); });

  nlohmann::ordered_json result;
  add(&result, "malloc 64 MiB, filling", workers, &Worker::fill_ns);
  add(&result, "malloc 1 to 64 MiB", workers, &Worker::malloc_ns);
  add(&result, "free 1 to 64 MiB", workers, &Worker::free_ns);
  add(&result, "free 64 MiB, clearing", workers, &Worker::clear_ns);
  result["all threads, per call"] = seconds * 1e9 / static_cast<double>(threads * exchanges * 2);
  std::size_t refused = 0;
  for (const Worker& worker : workers) refused += worker.refused;
  result["refused blocks"] = refused;
  result["GiB handed out"] =
      static_cast<double>(threads * blocks * held_block_bytes) / (1024.0 * static_cast<double>(mib));
  result["GiB of Terrace's heap"] = in_heap / (1024.0 * static_cast<double>(mib));
  return result;
}

}  // namespace terrace::bench
