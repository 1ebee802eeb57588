// terrace bench offload: what storing and fetching CPU tensors takes, against memcpy of the same bytes in the
// same process; what host memory is taken for what is stored; and how long the calls keep the caller.
//
// A round copies the tensors with memcpy to memory that was touched before, then stores all of them, waits
// until they have left, fetches all of them in reverse and waits for each. Rounds alternate and medians are
// compared. The first round of the engine, which commits its memory, is reported for itself.
#include <time.h>

#include <algorithm>

#include <cstdio>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "liballoc/gpu/terrace_gpu.h"
#include "tools/bench/measuring/measure.h"

namespace terrace::bench {
namespace {

constexpr const char* usage = R"(usage: terrace bench offload [options]

Stores CPU tensors with the offload engine and fetches them, and compares both with memcpy.

  --mib N          store so many MiB in all, 64 at least (512)
  --tensor-kib N   in tensors of so many KiB, 4 at least (8192)
  --rounds N       repeat the whole so often (5)
  --json FILE      write all figures into this file)";

struct Round {
  double store_s = 0;
  double fetch_s = 0;
  std::vector<double> store_call_s, fetch_call_s;
};

void check(int result, const char* what) {
  if (result < 0) throw std::runtime_error(std::string(what) + ": " + std::strerror(-result));
}

class Tensors {
 public:
  Tensors(std::size_t count, std::size_t bytes)
      : bytes_(bytes), data_(count * bytes, std::byte{1}), back_(data_.size()) {
    for (std::size_t i = 0; i < data_.size(); i += 8) std::memcpy(&data_[i], &i, sizeof(i));
  }
  std::size_t count() const { return data_.size() / bytes_; }
  std::size_t bytes() const { return bytes_; }
  const std::byte* at(std::size_t i) const { return &data_[i * bytes_]; }
  std::byte* back(std::size_t i) { return &back_[i * bytes_]; }
  void check_back() const {
    if (back_ != data_) throw std::runtime_error("what came back is not what was stored");
  }
  double memcpy_s() {
    const double start = now_s();
    for (std::size_t i = 0; i < count(); ++i) std::memcpy(back(i), at(i), bytes_);
    return now_s() - start;
  }

 private:
  std::size_t bytes_;
  std::vector<std::byte> data_, back_;
};

void wait_until_left(terrace_offload* engine, std::uint64_t id) {
  for (int left = 0; (left = terrace_offload_left(engine, id)) != 1;) {
    check(left, "left");
    const timespec pause{0, 20'000};
    nanosleep(&pause, nullptr);
  }
}

void store(terrace_offload* engine, const Tensors& tensors, std::vector<std::uint64_t>* ids, Round* round) {
  const double start = now_s();
  for (std::size_t i = 0; i < tensors.count(); ++i) {
    const terrace_offload_tensor tensor{.size = sizeof(tensor),
                                        .data = tensors.at(i),
                                        .bytes = tensors.bytes(),
                                        .element = TERRACE_ELEMENT_U8,
                                        .site = i + 1};
    const double call = now_s();
    check(terrace_offload_store(engine, &tensor, nullptr, &ids->emplace_back()), "store");
    round->store_call_s.push_back(now_s() - call);
  }
  for (const std::uint64_t id : *ids) wait_until_left(engine, id);
  round->store_s = now_s() - start;
}

void fetch(terrace_offload* engine, Tensors& tensors, const std::vector<std::uint64_t>& ids, Round* round) {
  const double start = now_s();
  for (std::size_t i = ids.size(); i-- > 0;) {
    const double call = now_s();
    check(terrace_offload_fetch(engine, ids[i], tensors.back(i), nullptr), "fetch");
    round->fetch_call_s.push_back(now_s() - call);
  }
  for (std::size_t i = ids.size(); i-- > 0;) check(terrace_offload_arrive(engine, ids[i], nullptr), "arrive");
  round->fetch_s = now_s() - start;
}

Round run_round(terrace_offload* engine, Tensors& tensors) {
  Round round;
  std::vector<std::uint64_t> ids;
  store(engine, tensors, &ids, &round);
  fetch(engine, tensors, ids, &round);
  tensors.check_back();
  check(terrace_offload_end_step(engine), "end_step");
  return round;
}

terrace_offload* open_engine(std::uint64_t dram_bytes) {
  const terrace_offload_config config{.size = sizeof(config),
                                      .device = "cpu",
                                      .dram_bytes = dram_bytes,
                                      .nvme_bytes = 0,
                                      .nvme_directory = nullptr,
                                      .compress = "off",
                                      .read_ahead_bytes = 0,
                                      .writes_per_day_bytes = 0,
                                      .writes_total_bytes = 0,
                                      .fault = nullptr,
                                      .staging_bytes = 0,
                                      .checksums = nullptr,
                                      .policy = nullptr,
                                      .trial = nullptr};
  char reason[512] = "";
  terrace_offload* engine = nullptr;
  if (terrace_offload_open(&config, &engine, reason, sizeof(reason)) != 0) throw std::runtime_error(reason);
  return engine;
}

nlohmann::json calls_us(const std::vector<double>& calls) {
  return {{"p50_us", percentile(calls, 0.5) * 1e6}, {"p99_us", percentile(calls, 0.99) * 1e6}};
}

int compare(const Arguments& arguments) {
  const auto tensor_bytes = static_cast<std::size_t>(arguments.number("--tensor-kib", 8192, 4, 1048576))
                            << 10;
  const auto bytes = static_cast<std::size_t>(arguments.number("--mib", 512, 64, 65536)) << 20;
  Tensors tensors(std::max<std::size_t>(1, bytes / tensor_bytes), tensor_bytes);
  const double total = static_cast<double>(tensors.count() * tensors.bytes());
  terrace_offload* engine = open_engine(bytes + bytes / 8 + tensor_bytes + (std::size_t{16} << 20));
  const Round first = run_round(engine, tensors);
  std::vector<double> copies, stores, fetches, store_calls, fetch_calls;
  for (long i = arguments.number("--rounds", 5, 1, 99); i > 0; --i) {
    copies.push_back(tensors.memcpy_s());
    const Round round = run_round(engine, tensors);
    stores.push_back(round.store_s);
    fetches.push_back(round.fetch_s);
    store_calls.insert(store_calls.end(), round.store_call_s.begin(), round.store_call_s.end());
    fetch_calls.insert(fetch_calls.end(), round.fetch_call_s.begin(), round.fetch_call_s.end());
  }
  terrace_offload_statistics counts{};
  counts.size = sizeof(counts);
  check(terrace_offload_get_statistics(engine, &counts), "statistics");
  terrace_offload_close(engine);
  const double copy = median(copies);
  nlohmann::json report = begin_report("terrace-bench-offload");
  report.update({{"bytes", total},
                 {"tensor_bytes", tensor_bytes},
                 {"memcpy_bytes_per_s", total / copy},
                 {"store_bytes_per_s", total / median(stores)},
                 {"fetch_bytes_per_s", total / median(fetches)},
                 {"store_over_memcpy", copy / median(stores)},
                 {"fetch_over_memcpy", copy / median(fetches)},
                 {"first_store_bytes_per_s", total / first.store_s},
                 {"host_memory_over_stored", static_cast<double>(counts.dram_peak_bytes) / total},
                 {"store_call", calls_us(store_calls)},
                 {"fetch_call", calls_us(fetch_calls)}});
  std::printf("%s\n", report.dump(2).c_str());
  if (const std::string path = arguments.text("--json", ""); !path.empty()) write_json(path, report);
  return 0;
}

}  // namespace
}  // namespace terrace::bench

int main(int argc, char** argv) try {
  using namespace terrace::bench;  // NOLINT: this is their program
  return compare(Arguments(argc, argv, {"--rounds", "--mib", "--tensor-kib", "--json"}, usage));
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  return 1;
}
