// The link's ticks: budgets, order, victims; and that ticks done at once are the same as ticks one by one.
#include "daemon/planner/g10/simulator/link.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <tuple>
#include <vector>

#include "tests/planner/g10/small_trace.h"

namespace terrace::planner::g10 {
namespace {

using test::machine_of_pages;
using test::op_of_ticks;
using test::tensor_of_pages;

// Two operations over tensors of the given sizes; operation 0 needs the first tensor, operation 1 the second.
Workload workload_of(const std::vector<std::uint32_t>& pages) {
  wire::Trace trace;
  for (const std::uint32_t count : pages) trace.tensors.push_back(tensor_of_pages(count));
  trace.ops = {op_of_ticks(1, {0}, {}), op_of_ticks(1, {1}, {})};
  return *make_workload(trace, {}, {});
}

void queue(Link& link, std::uint32_t tensor, Place place, Wait wait) {
  const std::uint32_t id = link.pages().first_run(tensor);
  link.pages().move(id, link.pages().run(id).pages, place, wait);
}

std::uint64_t pages_in(const PageStore& pages, std::uint32_t tensor, Place place) {
  std::uint64_t count = 0;
  for (std::uint32_t id = pages.first_run(tensor); id != no_run; id = pages.run(id).after) {
    if (pages.run(id).place == place) count += pages.run(id).pages;
  }
  return count;
}

using State = std::vector<std::tuple<std::uint32_t, std::uint32_t, Place, Wait>>;

// Every tensor's pages and the GPU's list, with neighbouring runs of a state joined.
State state_of(const PageStore& pages, std::uint32_t tensors) {
  State state;
  const auto add = [&state](const Run& run) {
    const auto entry = std::make_tuple(run.tensor, run.pages, run.place, run.wait);
    const bool same = !state.empty() && std::get<0>(state.back()) == run.tensor &&
                      std::get<2>(state.back()) == run.place && std::get<3>(state.back()) == run.wait;
    if (same) std::get<1>(state.back()) += run.pages;
    if (!same) state.push_back(entry);
  };
  for (std::uint32_t tensor = 0; tensor < tensors; ++tensor) {
    for (std::uint32_t id = pages.first_run(tensor); id != no_run; id = pages.run(id).after)
      add(pages.run(id));
  }
  state.emplace_back(no_run, 0, Place::gpu, Wait::none);
  for (std::uint32_t id = pages.oldest(); id != no_run; id = pages.run(id).newer) add(pages.run(id));
  return state;
}

TEST_CASE("SSD and host share the link into the GPU") {
  const Workload workload = workload_of({1000, 1000});
  Link link(workload, machine_of_pages(5000, 5000), PageVictims::oldest);
  link.begin_kernel(0);
  queue(link, 0, Place::ssd, Wait::prefetch_ssd);
  queue(link, 1, Place::host, Wait::prefetch_host);
  link.tick(false);
  CHECK(pages_in(link.pages(), 0, Place::gpu) == 10);
  CHECK(pages_in(link.pages(), 1, Place::gpu) == 40);
  const G10Traffic traffic = link.take_traffic();
  CHECK(traffic.ssd_to_gpu == 10 * test::page);
  CHECK(traffic.host_to_gpu == 40 * test::page);
}

TEST_CASE("Into a full GPU and past a full host only the SSD's budget is left") {
  const Workload workload = workload_of({1000, 500, 600});
  Link link(workload, machine_of_pages(500, 30), PageVictims::oldest);
  queue(link, 1, Place::gpu, Wait::none);
  link.begin_kernel(0);
  queue(link, 0, Place::absent, Wait::fault_alloc);
  link.tick(true);
  CHECK(pages_in(link.pages(), 1, Place::host) == 30);
  CHECK(pages_in(link.pages(), 1, Place::ssd) == 10);
  link.tick(true);
  CHECK(pages_in(link.pages(), 1, Place::ssd) == 20);
  CHECK(pages_in(link.pages(), 0, Place::gpu) == 50);
}

TEST_CASE("A page from a full host leaves its frame to the next victim") {
  const Workload workload = workload_of({500, 500});
  Link link(workload, machine_of_pages(500, 500), PageVictims::oldest);
  queue(link, 1, Place::gpu, Wait::none);
  link.begin_kernel(0);
  queue(link, 0, Place::host, Wait::fault_host);
  link.tick(true);
  CHECK(pages_in(link.pages(), 1, Place::ssd) == 1);
  CHECK(pages_in(link.pages(), 1, Place::host) == 49);
  CHECK(link.pages().host_free() == 1);
}

TEST_CASE("A needed victim goes back into the queue of faults") {
  const Workload workload = workload_of({100, 100});
  Link link(workload, machine_of_pages(100, 500), PageVictims::oldest);
  queue(link, 0, Place::gpu, Wait::none);
  link.begin_kernel(0);
  queue(link, 1, Place::ssd, Wait::prefetch_ssd);
  link.tick(false);
  CHECK(link.pages().awaited() == 10);
  CHECK_FALSE(link.pages().empty(Wait::fault_host));
  for (int i = 0; i < 40; ++i) link.tick(false);
  CHECK(link.pages().idle());
}

TEST_CASE("DeepUM+ drops dead pages and spares what comes next") {
  wire::Trace trace;
  for (int i = 0; i < 3; ++i) trace.tensors.push_back(tensor_of_pages(100));
  trace.ops = {op_of_ticks(1, {0}, {}), op_of_ticks(1, {1}, {}), op_of_ticks(1, {2}, {})};
  const Workload workload = *make_workload(trace, {}, {});
  G10Machine machine = machine_of_pages(200, 500);
  machine.deepum_ahead = 1;
  Link link(workload, machine, PageVictims::not_soon_used);
  queue(link, 1, Place::gpu, Wait::none);
  queue(link, 0, Place::gpu, Wait::none);
  link.begin_kernel(1);
  queue(link, 2, Place::ssd, Wait::prefetch_ssd);
  link.tick(false);
  CHECK(pages_in(link.pages(), 0, Place::absent) == 10);
  CHECK(pages_in(link.pages(), 1, Place::gpu) == 100);
  CHECK(link.take_traffic().gpu_to_host == 0);
}

struct Scene {
  std::vector<std::uint32_t> pages;
  std::uint64_t gpu = 0;
  std::uint64_t host = 0;
  Wait wait = Wait::none;
  Place place = Place::absent;
};

Scene random_scene(std::mt19937& random) {
  const auto below = [&random](std::uint32_t bound) { return static_cast<std::uint32_t>(random() % bound); };
  Scene scene;
  for (int i = 0; i < 6; ++i) scene.pages.push_back(1 + below(3000));
  const bool host_is_roomy = below(2) == 0;
  scene.gpu = 100 + below(6000);
  scene.host = scene.pages[1] + below(500) + (host_is_roomy ? 10000 : 0);
  const std::uint32_t kind = below(5);
  const Wait waits[] = {Wait::fault_ssd, Wait::fault_host, Wait::fault_alloc, Wait::prefetch_ssd,
                        Wait::prefetch_host};
  scene.wait = waits[kind];
  scene.place = kind == 2 ? Place::absent : (kind == 0 || kind == 3 ? Place::ssd : Place::host);
  return scene;
}

void stage(Link& link, const Scene& scene) {
  for (std::uint32_t tensor = 2; tensor < scene.pages.size(); ++tensor) {
    const std::uint32_t fits =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(scene.pages[tensor], link.pages().gpu_free()));
    if (fits > 0) link.pages().move(link.pages().first_run(tensor), fits, Place::gpu, Wait::none);
  }
  link.begin_kernel(0);
  queue(link, 1, scene.place, scene.wait);
}

TEST_CASE("Ticks done at once leave what ticks one by one leave") {
  std::mt19937 random(7);
  std::uint64_t skipped = 0;
  for (int round = 0; round < 300; ++round) {
    const Scene scene = random_scene(random);
    const Workload workload = workload_of(scene.pages);
    const G10Machine machine = machine_of_pages(scene.gpu, scene.host);
    Link fast(workload, machine, PageVictims::oldest);
    Link slow(workload, machine, PageVictims::oldest);
    stage(fast, scene);
    stage(slow, scene);
    for (std::uint64_t left = 400; left > 0; --left) {
      const std::uint64_t ticks = fast.skip(left, false);
      for (std::uint64_t i = 0; i < ticks; ++i) slow.tick(false);
      skipped += ticks;
      left -= ticks;
      if (left == 0) break;
      fast.tick(false);
      slow.tick(false);
      REQUIRE(state_of(fast.pages(), 6) == state_of(slow.pages(), 6));
    }
    REQUIRE(fast.take_traffic().gpu_to_ssd == slow.take_traffic().gpu_to_ssd);
  }
  CHECK(skipped > 1000);
}

}  // namespace
}  // namespace terrace::planner::g10
