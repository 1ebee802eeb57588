// The stall model; see stall.h.
//
// The profile gives three times: all pages fault, only the outputs fault, none does. Their differences are
// the rates at which inputs and outputs come in from the host; where a difference is zero, the artifact takes
// a rate above every link's. The SSD is slower by the share of its latency. Host and SSD work side by side,
// inputs and outputs one after the other. The order of the operations is the artifact's, so that sums round
// alike.
#include "daemon/planner/g10/simulator/stall.h"

#include <algorithm>

namespace terrace::planner::g10 {
namespace {

constexpr double no_limit = 1063004400;  // bytes per ms: what the artifact takes for "not limited by faults"

struct Side {
  double size = 0;       // bytes
  double share = 0;      // of its pages that fault
  double ssd_share = 0;  // of the faulted ones
  double host_rate = 0;  // bytes per ms
  double ssd_rate = 0;
};

Side make_side(const FaultedPages& pages, double page_bytes, double milliseconds) {
  Side side;
  side.size = static_cast<double>(pages.all) * page_bytes;
  const auto faulted = static_cast<double>(pages.ssd + pages.other);
  side.share = pages.all == 0 ? 0 : faulted / static_cast<double>(pages.all);
  side.ssd_share = faulted == 0 ? 0 : static_cast<double>(pages.ssd) / faulted;
  side.host_rate = milliseconds == 0 ? no_limit : side.size / milliseconds;
  return side;
}

void limit_ssd(Side& side, double ssd_rate, const G10Machine& machine) {
  const auto system = static_cast<double>(static_cast<int>(machine.system_latency_us));
  const auto ssd = static_cast<double>(static_cast<int>(machine.ssd_latency_us));
  const double slowed = system + ssd == 0 ? side.host_rate : side.host_rate * system / (system + ssd);
  side.ssd_rate = side.ssd_share == 0 ? 0 : std::min(slowed, ssd_rate);
}

double ssd_time(const Side& side) {
  return side.ssd_share == 0 ? 0 : side.share * side.ssd_share * side.size / side.ssd_rate;
}

// A side without bytes has a rate of zero and no time.
double host_time(const Side& side) {
  const double bytes = side.share * (1 - side.ssd_share) * side.size;
  return bytes == 0 ? 0 : bytes / side.host_rate;
}

}  // namespace

std::uint64_t stall_cycles(const G10Machine& machine, const Kernel& kernel, const FaultedPages& inputs,
                           const FaultedPages& outputs) {
  const double hertz = machine.gpu_ghz * 1e9;
  const double link_rate = machine.link_gb_per_second * 1e9 / hertz * hertz / 1000;
  const double ssd_rate = machine.ssd_gb_per_second * 1e9 / hertz * hertz / 1000;
  const double input_ms = 1000.0 * (kernel.all_seconds - kernel.input_seconds);
  const double output_ms = 1000.0 * (kernel.input_seconds - kernel.execution_seconds);
  Side in = make_side(inputs, machine.page_bytes, input_ms);
  Side out = make_side(outputs, machine.page_bytes, output_ms);
  limit_ssd(in, ssd_rate, machine);
  limit_ssd(out, ssd_rate, machine);
  const double left = link_rate - std::max(in.ssd_rate, out.ssd_rate);
  in.host_rate = std::min(in.host_rate, left);
  out.host_rate = std::min(out.host_rate, left);
  const double stall_ms = std::max(ssd_time(in) + ssd_time(out), host_time(in) + host_time(out));
  return static_cast<std::uint64_t>(stall_ms / 1e3 * hertz);
}

}  // namespace terrace::planner::g10
