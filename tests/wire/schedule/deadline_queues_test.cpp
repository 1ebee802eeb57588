#include "liballoc/wire/schedule/deadline_queues.h"

#include <catch2/catch.hpp>
#include <memory>
#include <random>
#include <set>
#include <tuple>

namespace terrace::wire {

// Enough nodes for heaps of several levels, and removals from anywhere in them.
TEST_CASE("Whoever is removed from wherever the front is the least of those that are left") {
  constexpr std::uint32_t lanes = 2, nodes = 300;
  const auto memory = std::make_unique<std::byte[]>(DeadlineQueues::memory_bytes(lanes, nodes));
  DeadlineQueues queues(lanes, nodes, memory.get());
  using Key = std::tuple<bool, std::uint64_t, int, std::uint32_t>;  // not urgent, rank, number, node
  std::set<Key> model[lanes];
  std::mt19937 random(3);
  for (int number = 0; number < 50'000; ++number) {
    const auto node = static_cast<std::uint32_t>(random() % nodes);
    if (queues.waits(node)) {
      auto& of_lane = model[queues.lane_of(node)];
      std::erase_if(of_lane, [node](const Key& key) { return std::get<3>(key) == node; });
      queues.remove(node);
    } else {
      const auto lane = static_cast<std::uint32_t>(random() % lanes);
      const std::uint64_t rank = random() % 50;
      const bool urgent = random() % 4 == 0;
      queues.push(lane, node, rank, urgent);
      model[lane].emplace(!urgent, rank, number, node);
    }
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      // Now and then to the last one: a node in the wrong place shows when it should be the front.
      bool drains = number % 200 == 0;
      do {
        const std::uint32_t least =
            model[lane].empty() ? DeadlineQueues::none : std::get<3>(*model[lane].begin());
        REQUIRE(queues.front(lane) == least);
        REQUIRE(queues.size(lane) == model[lane].size());
        drains = drains && least != DeadlineQueues::none;
        if (!drains) break;
        queues.remove(least);
        model[lane].erase(model[lane].begin());
      } while (drains);
    }
  }
}

}  // namespace terrace::wire
