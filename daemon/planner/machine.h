// The machine that a plan is made for: tiers, the links between them, codecs.
//
// Tier 0 is where operations run and what they name must lie in. A route leads from one tier to another over
// one or several links; a link has one queue and one bandwidth per direction. Two routes that share a link
// share its bandwidth (the SSD behind the GPU's PCIe link); SSD reads and writes are different directions.
// A far route leads from one tier to another and passes by tier 0: host memory to the SSD.
// A slower memory that operations can use where it lies has rates of its own (Access); only
// daemon/planner/memories makes use of them, simulate() moves everything to tier 0 all the same.
// A tier inside tier 0 has its bytes there, and a codec makes them fewer: what is encoded and stays (Gist).
// Its route's link is the memory itself. A second processor may work in a tier's memory: ZeRO-Offload's
// update (simulate/policies/zero_offload.h). JSON form: machine_json.h, docs/formats/trace.md.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace terrace::planner {

// Of a link or a codec. Below it times and shares of a link lose their meaning.
inline constexpr double least_bytes_per_second = 1;

inline constexpr std::uint64_t unlimited_bytes = std::numeric_limits<std::uint64_t>::max();

// How operations read and write a tier's memory where it lies, without a move. A tier with both rates can be
// used in place (memories/step.h says what an operation then takes); rates of 0: only moves reach it.
struct Access {
  double read_bytes_per_second = 0;
  double write_bytes_per_second = 0;
  double read_latency_us = 0;  // of one tensor that one operation names
  double write_latency_us = 0;
  bool in_place() const { return read_bytes_per_second > 0 && write_bytes_per_second > 0; }
};

struct Tier {
  std::string name;  // "gpu", "dram", "nvme"
  std::uint64_t capacity_bytes = unlimited_bytes;
  Access access = {};
  // Weights that the processor whose memory this is updates with the optimizer, as bytes of weights; 0: it
  // has none. Adam in 32 bits reads a weight, a gradient and two states and writes all but the gradient: 28
  // bytes of memory traffic for 4 of a weight.
  double update_bytes_per_second = 0;
  // Its bytes lie in tier 0's memory and count against that capacity, too. Only coded forms move there. Never
  // of tier 0 itself, and of one tier at most.
  bool inside = false;
  // Of tier 0: its memory comes in pages that lie anywhere, so that no content needs its bytes in a row.
  bool paged = false;
};

struct Link {
  std::string name;
  double in_bytes_per_second = 0;   // towards tier 0
  double out_bytes_per_second = 0;  // away from tier 0
  double in_latency_us = 0;
  double out_latency_us = 0;
};

struct Route {
  std::uint32_t tier = 1;            // the far end; the near end is tier 0
  std::vector<std::uint32_t> links;  // indices into Machine::links, in order from tier 0
};

// Between two tiers of which none is tier 0. Each of them needs a route to tier 0 as well: what lies there
// may be needed at once.
struct FarRoute {
  std::uint32_t from = 1;            // the near end
  std::uint32_t tier = 2;            // the far end
  std::vector<std::uint32_t> links;  // in order from the near end; what moves away from it uses their `out`
};

// A direction of a far route.
struct FarWay {
  std::uint32_t route = 0;  // index into Machine::far_routes
  bool in = false;          // towards its near end
};

// Costs of a codec at tier 0, per byte of content. One that overlaps works beside the computation, on its way
// with the transfer: in the copy engine (cDMA), or on processors of its own. It takes none of the
// computation's time, and a transfer is no faster than it. Any other holds the computation up. What it stores
// of a tensor: program.h, stored_bytes().
// One that keeps one bit of each value (one_bit.h) has no way back, does not overlap, and is of use inside
// tier 0 alone, where operations read the bits.
struct CodecCost {
  std::string name;
  double compress_bytes_per_second = 0;
  double decompress_bytes_per_second = 0;  // 0 with one_bit, and never else
  double stored_share = 1;                 // of a dense tensor's bytes
  bool drops_zeros = false;                // stored_share applies to the non-zero part alone
  double overhead_share = 1 / 32.;         // masks, with drops_zeros
  bool overlaps = false;
  bool one_bit = false;
};

struct Machine {
  std::string name;
  std::vector<Tier> tiers;  // at least one
  std::vector<Link> links;
  std::vector<Route> routes;  // at most one per far tier
  std::vector<CodecCost> codecs;
  std::vector<FarRoute> far_routes = {};  // at most one between two tiers

  bool has_route(std::uint32_t tier) const {
    return std::any_of(routes.begin(), routes.end(), [tier](const Route& r) { return r.tier == tier; });
  }
  bool has_far_route(std::uint32_t tier) const {
    return std::any_of(far_routes.begin(), far_routes.end(),
                       [tier](const FarRoute& r) { return r.from == tier || r.tier == tier; });
  }
  // How to get from one far tier to another; nothing: no far route leads there.
  std::optional<FarWay> far_way(std::uint32_t source, std::uint32_t target) const {
    for (std::uint32_t r = 0; r < far_routes.size(); ++r) {
      if (far_routes[r].from == source && far_routes[r].tier == target) return FarWay{r, false};
      if (far_routes[r].tier == source && far_routes[r].from == target) return FarWay{r, true};
    }
    return std::nullopt;
  }
  bool is_inside(std::uint32_t tier) const { return tiers[tier].inside; }
  // The tier inside tier 0 that a route leads to; 0: there is none.
  std::uint32_t tier_inside() const {
    for (const Route& route : routes)
      if (is_inside(route.tier)) return route.tier;
    return 0;
  }
  // Whether this codec, as wire::ScheduleEntry counts, keeps one bit a value.
  bool keeps_one_bit(std::uint32_t codec) const { return codec != 0 && codecs[codec - 1].one_bit; }
  // The fastest codec that keeps one bit a value, as wire::ScheduleEntry counts; 0: there is none, or no tier
  // inside tier 0 for what it makes.
  std::uint32_t one_bit_codec() const {
    std::uint32_t best = 0;
    for (std::uint32_t c = 1; c <= codecs.size() && tier_inside() != 0; ++c) {
      const CodecCost& codec = codecs[c - 1];
      if (!codec.one_bit) continue;
      const bool first = best == 0;
      if (first || codec.compress_bytes_per_second > codecs[best - 1].compress_bytes_per_second) best = c;
    }
    return best;
  }
};

}  // namespace terrace::planner
