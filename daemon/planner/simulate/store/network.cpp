#include "daemon/planner/simulate/store/network.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace terrace::planner {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

}  // namespace

Network::Network(const Machine& machine) : use_(machine.links.size()) {
  for (const Link& link : machine.links) {
    gates_.push_back({link.out_bytes_per_second / 1e6, 0});
    gates_.push_back({link.in_bytes_per_second / 1e6, 0});
  }
  for (const Route& route : machine.routes) add_lanes(machine, route.links);
  for (const FarRoute& route : machine.far_routes) add_lanes(machine, route.links);
  for (Lane& lane : lanes_) {
    lane.gates.push_back(static_cast<std::uint32_t>(gates_.size()));
    gates_.push_back({never, 0});
  }
  free_.resize(gates_.size());
  users_.resize(gates_.size());
  rates_.resize(lanes_.size());
}

void Network::add_lanes(const Machine& machine, const std::vector<std::uint32_t>& links) {
  Lane out;
  Lane in;
  for (const std::uint32_t l : links) {
    out.gates.push_back(l * 2);
    out.latency_us += machine.links[l].out_latency_us;
    in.gates.push_back(l * 2 + 1);
    in.latency_us += machine.links[l].in_latency_us;
  }
  lanes_.push_back(std::move(out));
  lanes_.push_back(std::move(in));
}

void Network::start(std::uint32_t lane, std::uint64_t bytes, double most_bytes_per_us) {
  Lane& l = lanes_[lane];
  gates_[l.gates.back()].bytes_per_us = most_bytes_per_us;
  l.left_bytes = static_cast<double>(bytes);
  l.rate = 0;
  if (l.latency_us > 0) {
    l.phase = Phase::latency;
    l.due_us = now_us_ + l.latency_us;
    return;
  }
  l.phase = Phase::moving;
  l.anchor_us = now_us_;
  share();
}

void Network::abort(std::uint32_t lane) {
  lanes_[lane].phase = Phase::idle;
  share();
}

double Network::next_us() const {
  double next = never;
  for (const Lane& l : lanes_) {
    if (l.phase != Phase::idle) next = std::min(next, l.due_us);
  }
  return next;
}

void Network::advance(double time_us, std::vector<std::uint32_t>* ended) {
  account(time_us - now_us_);
  now_us_ = time_us;
  bool changed = false;
  for (std::uint32_t i = 0; i < lanes_.size(); ++i) {
    Lane& l = lanes_[i];
    if (l.phase == Phase::idle || l.due_us > time_us) continue;
    changed = true;
    if (l.phase == Phase::moving) {
      l.phase = Phase::idle;
      ended->push_back(i);
    } else {
      l.phase = Phase::moving;
      l.anchor_us = time_us;
    }
  }
  if (changed) share();
}

void Network::reset_use() { use_.assign(use_.size(), {}); }

void Network::account(double elapsed_us) {
  if (elapsed_us <= 0) return;
  for (std::size_t link = 0; link < use_.size(); ++link) {
    const double out = gates_[link * 2].load;
    const double in = gates_[link * 2 + 1].load;
    use_[link].out_bytes += out * elapsed_us;
    use_[link].in_bytes += in * elapsed_us;
    if (out > 0) use_[link].out_busy_us += elapsed_us;
    if (in > 0) use_[link].in_busy_us += elapsed_us;
  }
}

void Network::set_rate(Lane* lane, double rate) {
  if (lane->rate == rate) return;
  lane->left_bytes = std::max(0.0, lane->left_bytes - lane->rate * (now_us_ - lane->anchor_us));
  lane->anchor_us = now_us_;
  lane->rate = rate;
  lane->due_us = now_us_ + lane->left_bytes / rate;
}

// Progressive filling. Ends after at most as many rounds as there are moving lanes.
void Network::share() {
  std::size_t open = 0;
  std::fill(users_.begin(), users_.end(), 0);
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    rates_[i] = 0;
    if (lanes_[i].phase != Phase::moving) continue;
    ++open;
    for (const std::uint32_t g : lanes_[i].gates) ++users_[g];
  }
  for (std::size_t g = 0; g < gates_.size(); ++g) {
    free_[g] = gates_[g].bytes_per_us;
    gates_[g].load = 0;
  }
  while (open > 0) {
    std::size_t scarcest = gates_.size();
    for (std::size_t g = 0; g < gates_.size(); ++g) {
      if (users_[g] == 0) continue;
      if (scarcest == gates_.size() || free_[g] / users_[g] < free_[scarcest] / users_[scarcest])
        scarcest = g;
    }
    const double fair = free_[scarcest] / users_[scarcest];
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      Lane& l = lanes_[i];
      if (l.phase != Phase::moving || rates_[i] > 0) continue;
      if (std::find(l.gates.begin(), l.gates.end(), scarcest) == l.gates.end()) continue;
      rates_[i] = fair;
      --open;
      for (const std::uint32_t g : l.gates) {
        free_[g] = std::max(0.0, free_[g] - fair);
        --users_[g];
        gates_[g].load += fair;
      }
    }
  }
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    if (lanes_[i].phase == Phase::moving) set_rate(&lanes_[i], rates_[i]);
  }
}

}  // namespace terrace::planner
