#include "daemon/planner/simulate/machines.h"

namespace terrace::planner {
namespace {

constexpr std::uint64_t gib = std::uint64_t{1} << 30;

// The machine of G10 (MICRO'23; github.com/platformxlab/G10, default configuration, as its page simulator
// takes it): A100 with 40 GiB in pages, each of which lies anywhere, 128 GiB of host memory, an SSD without
// limit. GB are 10^9, links full duplex, the SSD's traffic goes over the GPU's PCIe link, its reads and
// writes do not disturb each other, and no latency is charged. That its CPU updates weights with Adam at what
// six channels of DDR4-2666 carry, 128 GB/s for 28 bytes of traffic for each 4, is ours.
Machine a100_g10() {
  Machine m;
  m.name = "a100-g10";
  m.tiers = {{"gpu", 40 * gib}, {"host", 128 * gib, {}, 128e9 / 28 * 4}, {"ssd", unlimited_bytes}};
  m.tiers[0].paged = true;
  m.links = {{"pcie", 15.754e9, 15.754e9, 0, 0}, {"ssd", 3.2e9, 3.2e9, 0, 0}};
  m.routes = {{1, {0}}, {2, {0, 1}}};
  return m;
}

// The same without host memory between: FlashNeuron's shape (FAST'21), GPU and SSD alone.
Machine a100_ssd() {
  Machine m = a100_g10();
  m.name = "a100-ssd";
  m.tiers.erase(m.tiers.begin() + 1);
  m.routes = {{1, {0, 1}}};
  return m;
}

}  // namespace

std::vector<std::string> built_in_machine_names() { return {"a100-g10", "a100-ssd"}; }

std::optional<Machine> built_in_machine(std::string_view name) {
  for (Machine machine : {a100_g10(), a100_ssd()}) {
    if (machine.name == name) return machine;
  }
  return std::nullopt;
}

}  // namespace terrace::planner
