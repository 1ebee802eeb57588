// Everything at random against a model that is a map, from one thread and from several.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <thread>

#include "tests/liballoc/gpu/offload/engine_fixture.h"
#include "tests/liballoc/support.h"

using namespace terrace::liballoc::offload::test;
using terrace::liballoc::test::Random;

namespace {

struct Held {
  std::uint64_t seed = 0;
  std::vector<std::byte> source;  // empty once it has left
  std::uint64_t bytes = 0;
  bool usable = true;
};

// One caller; the engine may have others. Asserts nothing through Catch2, which knows one thread.
class Caller {
 public:
  Caller(terrace_offload* engine, std::uint64_t seed) : engine_(engine), random_(seed), seed_(seed << 32) {}

  // False on a wrong byte or an error that cannot be.
  bool act() {
    const std::uint64_t what = random_.below(10);
    if (held_.empty() || (what < 4 && held_.size() < 30)) return store();
    auto held = held_.begin();
    std::advance(held, random_.below(held_.size()));
    if (what < 6) return look(held->first, held->second);
    if (what < 8) return fetch(held->first, held->second);
    return release(held);
  }
  bool release_all() {
    while (!held_.empty())
      if (!release(held_.begin())) return false;
    return true;
  }
  void forget_all() { held_.clear(); }

 private:
  using Map = std::map<std::uint64_t, Held>;

  bool store() {
    Held held{.seed = ++seed_,
              .source = {},
              .bytes = 1 + random_.below(random_.below(4) == 0 ? 2 * mib : 200 * kib)};
    held.source = content(held.bytes, held.seed);
    const terrace_offload_tensor tensor{.size = sizeof(tensor),
                                        .data = held.source.data(),
                                        .bytes = held.bytes,
                                        .element = TERRACE_ELEMENT_F32,
                                        .site = held.seed % 7};
    std::uint64_t id = 0;
    const int error = terrace_offload_store(engine_, &tensor, nullptr, &id);
    if (error == 0) held_.emplace(id, std::move(held));
    return error == 0 || error == -ENOSPC;
  }
  bool look(std::uint64_t id, Held& held) {
    const int left = terrace_offload_left(engine_, id);
    if (left == 1) std::vector<std::byte>().swap(held.source);
    if (left < 0) held.usable = false;
    return left == 0 || left == 1 || left == -ENOSPC;
  }
  bool fetch(std::uint64_t id, Held& held) {
    std::vector<std::byte> back(held.bytes);
    int error = terrace_offload_fetch(engine_, id, back.data(), nullptr);
    if (error == 0 && random_.below(4) == 0) return release(held_.find(id));  // while it arrives
    if (error == 0) error = terrace_offload_arrive(engine_, id, nullptr);
    if (error == -ENOSPC) return true;  // never stored
    return error == 0 && back == content(held.bytes, held.seed);
  }
  bool release(Map::iterator held) {
    const int error = terrace_offload_release(engine_, held->first, nullptr);
    held_.erase(held);
    return error == 0;
  }

  terrace_offload* engine_;
  Random random_;
  std::uint64_t seed_;
  Map held_;
};

constexpr Options kinds[] = {
    {.device = "cpu", .dram_bytes = 16 * mib},
    {.device = "cpu", .dram_bytes = 16 * mib, .nvme_bytes = 64 * mib, .compress = "auto"},
    {.device = "emulated:1G", .dram_bytes = 16 * mib, .nvme_bytes = 32 * mib},
    {.device = "emulated:1G,h2d=2G,d2h=1G",
     .dram_bytes = 16 * mib,
     .nvme_bytes = 64 * mib,
     .compress = "zvc"},
    {.device = "cpu", .dram_bytes = 16 * mib, .nvme_bytes = 16 * mib, .fault = "slow:1ms"},
};

}  // namespace

TEST_CASE("AnyOrderOfCallsGivesBackTheBytes") {
  const std::size_t kind = GENERATE(0, 1, 2, 3, 4);
  CAPTURE(kind);
  const Opened engine(kinds[kind]);
  Caller caller(engine.get(), kind + 1);
  for (int step = 0; step < 4; ++step) {
    for (int i = 0; i < 150; ++i) REQUIRE(caller.act());
    if (step % 2 == 0) {
      REQUIRE(terrace_offload_end_step(engine.get()) == 0);
      caller.forget_all();
    }
  }
  REQUIRE(caller.release_all());
  const auto after = engine.statistics();
  CHECK(after.live == 0);
  CHECK(after.live_bytes == 0);
  CHECK(after.dram_content_bytes == 0);
  CHECK(after.dram_peak_bytes <= 16 * mib);
  CHECK(after.checksum_failures == 0);
}

TEST_CASE("SeveralThreadsDoNotDisturbEachOther") {
  const std::size_t kind = GENERATE(0, 1, 2, 3);
  CAPTURE(kind);
  const Opened engine(kinds[kind]);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Caller caller(engine.get(), 100 + t);
      for (int i = 0; i < 150; ++i)
        if (!caller.act()) ++wrong;
      if (!caller.release_all()) ++wrong;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong.load() == 0);
  CHECK(engine.statistics().live == 0);
}
