#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "daemon/planner/simulate/judge/check_parts.h"

namespace terrace::planner {
namespace {

// The end of a transfer is an instant of a clock that runs through all steps, so it is rounded; of transfers
// of one size all in one direction. At 4e9 us a double's last bit is half of this.
constexpr double end_rounding_us = 1e-6;

std::string name_of(const wire::Trace& trace, const Transfer& t) {
  const bool aside = t.from != 0;
  return "the transfer of tensor " + std::to_string(trace.tensors[t.tensor].id) +
         (aside ? " from tier " + std::to_string(t.from) : "") + (t.in && !aside ? " from" : " to") +
         " tier " + std::to_string(t.tier) + " at " + std::to_string(t.start_us) + " µs";
}

// What the transfer moves over, near end first; null: there is no such route.
const std::vector<std::uint32_t>* links_of(const Machine& machine, const Transfer& t) {
  for (const Route& r : machine.routes)
    if (t.from == 0 && r.tier == t.tier) return &r.links;
  for (const FarRoute& r : machine.far_routes) {
    const bool outward = !t.in && r.from == t.from && r.tier == t.tier;
    const bool inward = t.in && r.tier == t.from && r.from == t.tier;
    if (outward || inward) return &r.links;
  }
  return nullptr;
}

double bandwidth(const Link& link, bool in) {
  return (in ? link.in_bytes_per_second : link.out_bytes_per_second) / 1e6;
}

double latency_us(const Machine& machine, const std::vector<std::uint32_t>& links, bool in) {
  double sum = 0;
  for (const std::uint32_t l : links) {
    sum += in ? machine.links[l].in_latency_us : machine.links[l].out_latency_us;
  }
  return sum;
}

std::string check_one(const wire::Trace& trace, const Machine& machine, const Transfer& t) {
  if (t.tensor >= trace.tensors.size()) return "a transfer names tensor " + std::to_string(t.tensor);
  const std::vector<std::uint32_t>* links = links_of(machine, t);
  if (links == nullptr) return name_of(trace, t) + " has no route";
  if (!(t.queued_us <= t.start_us && t.start_us <= t.end_us) || !std::isfinite(t.end_us)) {
    return name_of(trace, t) + " is not queued, started and ended in this order";
  }
  double least_us = 0;
  for (const std::uint32_t l : *links) {
    least_us = std::max(least_us, static_cast<double>(t.stored_bytes) / bandwidth(machine.links[l], t.in));
  }
  if (!t.aborted && !at_most(latency_us(machine, *links, t.in) + least_us, t.end_us - t.start_us)) {
    return name_of(trace, t) + " is faster than its links";
  }
  return {};
}

// One at a time for each direction of each route.
std::string check_queues(const wire::Trace& trace, const Machine& machine,
                         const std::vector<Transfer>& transfers) {
  std::map<std::pair<const std::vector<std::uint32_t>*, bool>, const Transfer*> before;
  for (const Transfer& t : transfers) {
    const Transfer*& last = before[{links_of(machine, t), t.in}];
    if (last != nullptr && last->end_us > t.start_us) {
      return name_of(trace, t) + " begins before the one ahead of it in its queue has ended";
    }
    last = &t;
  }
  return {};
}

// What lies wholly within a window cannot be more than the link carries in it. Windows from each transfer's
// begin over the next few: a link that is too fast is too fast there first.
std::string check_link(const wire::Trace& trace, const Machine& machine, const SimulationReport& report,
                       std::uint32_t link, bool in) {
  constexpr std::size_t most = 32;
  std::vector<const Transfer*> mine;
  for (const Transfer& t : report.transfers) {
    const std::vector<std::uint32_t>& links = *links_of(machine, t);
    if (t.in == in && !t.aborted && std::count(links.begin(), links.end(), link) > 0) mine.push_back(&t);
  }
  for (std::size_t i = 0; i < mine.size(); ++i) {
    double end_us = 0;
    double bytes = 0;
    for (std::size_t j = i; j < std::min(mine.size(), i + most); ++j) {
      end_us = std::max(end_us, mine[j]->end_us);
      bytes += static_cast<double>(mine[j]->stored_bytes);
      const double rounded_us = end_rounding_us * static_cast<double>(j - i);
      if (!at_most(bytes / bandwidth(machine.links[link], in), end_us - mine[i]->start_us + rounded_us)) {
        return name_of(trace, *mine[j]) + " and those before it exceed the bandwidth of link '" +
               machine.links[link].name + "'";
      }
    }
  }
  return {};
}

std::string check_use(const Machine& machine, const SimulationReport& report, std::uint32_t link, bool in) {
  const LinkUse& use = report.links[link];
  const double bytes = in ? use.in_bytes : use.out_bytes;
  const double busy_us = in ? use.in_busy_us : use.out_busy_us;
  const double bytes_per_us = bandwidth(machine.links[link], in);
  double ended = 0;
  double all = 0;
  double rounded = 0;
  for (const Transfer& t : report.transfers) {
    const std::vector<std::uint32_t>& links = *links_of(machine, t);
    if (t.in != in || std::count(links.begin(), links.end(), link) == 0) continue;
    all += static_cast<double>(t.stored_bytes);
    rounded += end_rounding_us * bytes_per_us;
    const bool within = t.start_us >= 0 && t.end_us <= report.total_us && !t.aborted;
    if (within) ended += static_cast<double>(t.stored_bytes);
  }
  const bool right = at_most(ended, bytes + rounded) && at_most(bytes, all + rounded) &&
                     at_most(busy_us, report.total_us) && at_most(bytes, busy_us * bytes_per_us);
  return right ? "" : "the use of link '" + machine.links[link].name + "' is not what its transfers make";
}

}  // namespace

std::string check_transfers(const wire::Trace& trace, const Machine& machine,
                            const SimulationReport& report) {
  if (report.links.size() != machine.links.size()) return "the report is of another machine";
  double before_us = -std::numeric_limits<double>::infinity();
  for (const Transfer& t : report.transfers) {
    if (std::string wrong = check_one(trace, machine, t); !wrong.empty()) return wrong;
    if (t.start_us < before_us) return "the transfers are not in order";
    before_us = t.start_us;
  }
  std::string wrong = check_queues(trace, machine, report.transfers);
  for (std::uint32_t link = 0; link < machine.links.size(); ++link) {
    for (const bool in : {false, true}) {
      if (wrong.empty()) wrong = check_link(trace, machine, report, link, in);
      if (wrong.empty()) wrong = check_use(machine, report, link, in);
    }
  }
  return wrong;
}

}  // namespace terrace::planner
