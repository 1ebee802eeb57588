#include "tools/bench/pager/measure.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "liballoc/terrace.h"
#include "tools/bench/measuring/measure.h"

namespace terrace::bench {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t run_bytes = 2UL << 20;
constexpr int touches = 200;

[[noreturn]] void stop(const char* what) {
  std::fprintf(stderr, "bench: %s\n", what);
  std::exit(1);
}

terrace_statistics statistics() {
  terrace_statistics s{};
  s.size = sizeof s;
  if (terrace_get_statistics(&s) != 0) stop("no statistics");
  return s;
}

// Neither constant nor compressible, and cheap to make.
void fill(unsigned char* block, std::size_t bytes, std::uint64_t seed) {
  auto* words = reinterpret_cast<std::uint64_t*>(block);
  std::uint64_t state = seed;
  for (std::size_t i = 0; i < bytes / sizeof(std::uint64_t); ++i) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    words[i] = state;
  }
}

void touch(const unsigned char* block, std::size_t bytes) {
  const volatile unsigned char* at = block;
  for (std::size_t offset = 0; offset < bytes; offset += page_bytes) static_cast<void>(at[offset]);
}

bool is_mapped(unsigned char* page) {
  unsigned char flags = 0;
  return mincore(page, page_bytes, &flags) == 0 && (flags & 1) != 0;
}

double seconds_to_evict(unsigned char* block, std::size_t bytes, terrace_advice advice) {
  const double start = now_s();
  if (terrace_advise(block, bytes, advice) != 0 || terrace_quiesce(0) != 0)
    stop("the block cannot be evicted");
  return now_s() - start;
}

double seconds_to_touch(const unsigned char* block, std::size_t bytes) {
  const double start = now_s();
  touch(block, bytes);
  return now_s() - start;
}

// Of the memory that is mapped in the block's mappings, the share in huge pages.
double huge_share(const unsigned char* block, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(block);
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  double resident = 0;
  double huge = 0;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t from = 0;
    std::uintptr_t to = 0;
    double kib = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2) {
      inside = from < begin + bytes && to > begin;
    } else if (inside && std::sscanf(line.c_str(), "Rss: %lf kB", &kib) == 1) {
      resident += kib;
    } else if (inside && std::sscanf(line.c_str(), "AnonHugePages: %lf kB", &kib) == 1) {
      huge += kib;
    }
  }
  return resident > 0 ? huge / resident : 0;
}

// Touches one page of random runs, each on a quiet pager, and keeps the times of those that came from where
// `advice` had put them.
std::vector<double> fault_latencies_us(unsigned char* block, std::size_t bytes, terrace_advice advice) {
  std::mt19937_64 random(3);
  seconds_to_evict(block, bytes, advice);
  std::vector<double> microseconds;
  for (int i = 0; i < touches; ++i) {
    unsigned char* page = block + random() % (bytes / run_bytes) * run_bytes + random() % 512 * page_bytes;
    terrace_quiesce(0);
    if (is_mapped(page)) continue;
    const terrace_statistics before = statistics();
    const double spent = seconds_to_touch(page, page_bytes);
    const bool was_in_dram = statistics().prefetch_hits != before.prefetch_hits;
    const bool counts = was_in_dram == (advice == TERRACE_ADVISE_COLD);
    if (counts) microseconds.push_back(spent * 1e6);
  }
  touch(block, bytes);
  return microseconds;
}

// Streams a block that is larger than the budget again and again while it lives, so that the pager reads
// ahead and makes room all the time.
class Stream {
 public:
  explicit Stream(std::size_t bytes)
      : bytes_(bytes), block_(static_cast<unsigned char*>(terrace_alloc(bytes, run_bytes, 0))) {
    if (block_ == nullptr) stop("no memory for the stream");
    fill(block_, bytes_, 3);
    touch(block_, bytes_);  // all of it has left and come back once
    reader_ = std::thread([this] { read(); });
  }
  ~Stream() {
    ends_ = true;
    reader_.join();
    terrace_free(block_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

 private:
  void read() {
    for (std::size_t offset = 0; !ends_; offset = (offset + run_bytes) % bytes_)
      touch(block_ + offset, run_bytes);
  }

  const std::size_t bytes_;
  unsigned char* const block_;
  std::atomic<bool> ends_{false};
  std::thread reader_;
};

// The same beside a stream. Each touch is the first one of its run since that was written and dropped, so
// that all come from the drive.
std::vector<double> loaded_latencies_us(unsigned char* block, std::size_t bytes) {
  seconds_to_evict(block, bytes, TERRACE_ADVISE_PAGE_OUT);
  std::mt19937_64 random(5);
  std::vector<std::size_t> runs(bytes / run_bytes);
  std::iota(runs.begin(), runs.end(), 0);
  std::shuffle(runs.begin(), runs.end(), random);
  runs.resize(std::min<std::size_t>(runs.size(), touches));
  std::vector<double> microseconds;
  {
    const Stream stream(2 * bytes);
    for (const std::size_t run : runs) {
      const std::size_t page = 1 + random() % 511;  // the first one would bring the whole run
      microseconds.push_back(seconds_to_touch(block + run * run_bytes + page * page_bytes, page_bytes) * 1e6);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  touch(block, bytes);
  return microseconds;
}

}  // namespace

nlohmann::json measure_pager(std::size_t bytes) {
  auto* block = static_cast<unsigned char*>(terrace_alloc(bytes, run_bytes, 0));
  if (block == nullptr) stop("no memory for the block");
  fill(block, bytes, 1);
  terrace_status status{};
  status.size = sizeof status;
  terrace_get_status(&status);
  if (std::strcmp(status.pager, "active") != 0) stop(status.reason);
  const auto rate = [bytes](double seconds) { return static_cast<double>(bytes) / seconds; };
  nlohmann::json result = {{"mover", status.mover}, {"io", status.io}};
  // The first time out and back: what the program touched first lies in small pages where the system gives no
  // others, and comes back in huge ones, which the kernel has to clear.
  result["first_evict_bytes_per_s"] = rate(seconds_to_evict(block, bytes, TERRACE_ADVISE_PAGE_OUT));
  result["first_refill_nvme_bytes_per_s"] = rate(seconds_to_touch(block, bytes));
  fill(block, bytes, 2);  // what is there again as it was would leave without a write
  result["evict_bytes_per_s"] = rate(seconds_to_evict(block, bytes, TERRACE_ADVISE_PAGE_OUT));
  result["refill_nvme_bytes_per_s"] = rate(seconds_to_touch(block, bytes));
  result["huge_share"] = huge_share(block, bytes);
  result["evict_again_bytes_per_s"] = rate(seconds_to_evict(block, bytes, TERRACE_ADVISE_COLD));
  result["refill_dram_bytes_per_s"] = rate(seconds_to_touch(block, bytes));
  const std::vector<double> nvme = fault_latencies_us(block, bytes, TERRACE_ADVISE_PAGE_OUT);
  const std::vector<double> loaded = loaded_latencies_us(block, bytes);
  const std::vector<double> dram = fault_latencies_us(block, bytes, TERRACE_ADVISE_COLD);
  result["fault_nvme_p50_us"] = percentile(nvme, 0.5);
  result["fault_nvme_p99_us"] = percentile(nvme, 0.99);
  result["fault_loaded_p50_us"] = percentile(loaded, 0.5);
  result["fault_loaded_p99_us"] = percentile(loaded, 0.99);
  result["fault_dram_p50_us"] = percentile(dram, 0.5);
  result["fault_dram_p99_us"] = percentile(dram, 0.99);
  result["faults_measured"] = {nvme.size(), dram.size(), loaded.size()};
  terrace_free(block);
  return result;
}

}  // namespace terrace::bench
