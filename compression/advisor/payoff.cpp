#include "compression/advisor/payoff.h"

#include <algorithm>

namespace terrace::compression {
namespace {

constexpr double longest_ns = 1e18;

// Not a number compares false with everything: it becomes 0.
double sane(double ns) { return ns > 0 ? std::min(ns, longest_ns) : 0; }

// Two stages, the first chunk through one after the other, the others at the pace of the slower stage.
double pipeline_ns(double codec_ns, double link_ns, std::uint32_t chunks) {
  const double n = std::max<std::uint32_t>(chunks, 1);
  return (codec_ns + link_ns + (n - 1) * std::max(codec_ns, link_ns)) / n;
}

double exposed_ns(double link_ns, double hidden_ns) { return std::max(0.0, link_ns - sane(hidden_ns)); }

double one_way_ns(const Transfer& transfer, double codec_ns, double link_ns, double hidden_ns) {
  switch (transfer.schedule) {
    case Schedule::pipelined:
      return pipeline_ns(codec_ns, link_ns, transfer.chunks);
    case Schedule::overlapped:
      return exposed_ns(link_ns, hidden_ns) + std::min(sane(transfer.chi), 1.0) * codec_ns;
    case Schedule::serial:
      break;
  }
  return codec_ns + link_ns;
}

}  // namespace

double cost_ns(const Transfer& transfer, const Times& times) {
  const double out =
      one_way_ns(transfer, sane(times.compress_ns), sane(times.out_ns), transfer.hidden_out_ns);
  if (!transfer.round_trip) return out;
  return out + one_way_ns(transfer, sane(times.decompress_ns), sane(times.in_ns), transfer.hidden_in_ns);
}

double break_even_one_way(double element_bits, double link_rate, double compress_rate) {
  return 1 / element_bits + link_rate / compress_rate;
}

double break_even_round_trip(double element_bits, double link_rate, double compress_rate,
                             double decompress_rate) {
  return 1 / element_bits + link_rate / 2 * (1 / compress_rate + 1 / decompress_rate);
}

}  // namespace terrace::compression
