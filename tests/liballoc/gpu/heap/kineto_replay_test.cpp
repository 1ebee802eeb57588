// The allocations of five training steps of a transformer, from a PyTorch profile: how much of what the heap
// holds is in use at the peak, and whether it stops calling the driver when steps repeat.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <unordered_map>

#include "liballoc/gpu/heap/heap.h"
#include "tests/liballoc/gpu/heap/told_device.h"
#include "tests/planner/reference_data.h"
#include "tools/import/kineto_events.h"

namespace terrace::liballoc::gpu {
namespace {

using import::kineto::MemoryEvent;

std::vector<MemoryEvent> read_recorded() {
  const auto text = planner::test::reference_data("kineto/df_index_resolver.json.gz");
  if (!text) return {};
  auto profile = import::kineto::read_profile(*text);
  REQUIRE(profile);
  std::vector<MemoryEvent> events;
  for (const MemoryEvent& e : profile->memory) {
    if (profile->devices[e.device].starts_with("CUDA")) events.push_back(e);
  }
  std::stable_sort(events.begin(), events.end(), [](const MemoryEvent& a, const MemoryEvent& b) {
    return a.time_us != b.time_us ? a.time_us < b.time_us : a.order < b.order;
  });
  return events;
}

// Read once for all sections: reading takes ten times as long as replaying.
const std::vector<MemoryEvent>& recorded() {
  static const std::vector<MemoryEvent> events = read_recorded();
  return events;
}

// At each event the device has, with a chance of one in `passes_one_in`, done all its work; 0: it never has.
struct Replay {
  Heap& heap;
  test::ToldDevice& device;
  unsigned passes_one_in;
  std::mt19937 random{1};
  std::unordered_map<std::uint64_t, void*> live{};

  void run(const std::vector<MemoryEvent>& events) {
    for (const MemoryEvent& e : events) {
      if (passes_one_in > 0 && random() % passes_one_in == 0) device.pass(nullptr);
      if (e.bytes > 0) {
        void* block = nullptr;
        REQUIRE(heap.allocate(static_cast<std::uint64_t>(e.bytes), nullptr, &block) == 0);
        live[e.address] = block;
      } else {
        REQUIRE(heap.free(live.at(e.address), nullptr) == 0);
      }
    }
  }
};

}  // namespace

TEST_CASE(
    "A transformer's steps fill 97% of the frames held at the peak however far behind the device is, and "
    "repeated they need no driver call") {
  const std::vector<MemoryEvent>& events = recorded();
  if (events.empty()) return;
  const unsigned passes_one_in = GENERATE(0U, 1U, 3U, 10U, 30U, 100U, 300U);
  INFO("done at one event in " << passes_one_in);
  test::ToldDevice device(8192);
  {
    Heap heap(device);
    REQUIRE(heap.open(0) == 0);
    Replay replay{heap, device, passes_one_in};
    replay.run(events);
    const auto first = heap.statistics();
    CHECK(first.allocated_peak_bytes == 2'532'893'696);
    CHECK(first.allocated_peak_bytes * 100 >= first.reserved_peak_bytes * 97);
    const std::uint64_t calls = heap.map_calls();
    CHECK(calls * 20 <= first.allocations);
    replay.run(events);
    CHECK(heap.map_calls() == calls);
    CHECK(heap.statistics().reserved_peak_bytes == first.reserved_peak_bytes);
    CHECK(heap.statistics().host_waits == 0);
    REQUIRE_THAT(heap.check_invariants(), Catch::Equals(""));
  }
  CHECK(device.frames_alive == 0);
}

}  // namespace terrace::liballoc::gpu
