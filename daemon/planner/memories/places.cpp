#include "daemon/planner/memories/places.h"

#include <algorithm>
#include <tuple>

namespace terrace::planner::memories {
namespace {

constexpr std::size_t most_exchanged = 400;  // tensors that are tried, the most gainful first

}  // namespace

Places::Places(const Step& step)
    : step_(step), fast_(step.tensors.size(), false), extra_us_(step.ops.size(), 0), room_(step) {
  for (const Use& u : step.uses) extra_us_[u.op] += u.extra_us;
  for (std::size_t op = 0; op < step.ops.size(); ++op)
    slow_us_ += step.ops[op].takes_us(extra_us_[op]) - step.ops[op].time_us;
}

double Places::gain_us(std::uint32_t tensor) const {
  double gain = 0;
  for (const std::uint32_t u : step_.tensors[tensor].uses) {
    const Use& use = step_.uses[u];
    const Operation& op = step_.ops[use.op];
    const double changed_us = extra_us_[use.op] + (fast_[tensor] ? use.extra_us : -use.extra_us);
    gain += op.takes_us(extra_us_[use.op]) - op.takes_us(changed_us);
  }
  return gain;
}

double Places::density(std::uint32_t tensor) const {
  const Tensor& t = step_.tensors[tensor];
  return gain_us(tensor) / (static_cast<double>(t.bytes) * (t.last - t.first + 1.0));
}

void Places::put(std::uint32_t tensor, bool fast) {
  const Tensor& t = step_.tensors[tensor];
  slow_us_ -= gain_us(tensor);
  for (const std::uint32_t u : t.uses)
    extra_us_[step_.uses[u].op] += fast ? -step_.uses[u].extra_us : step_.uses[u].extra_us;
  fast_[tensor] = fast;
  if (fast) {
    room_.take(life(t), t.bytes);
  } else {
    room_.give(life(t), t.bytes);
  }
}

void Places::fill(const std::vector<double>& wishes) {
  std::vector<std::tuple<double, double, std::uint32_t>> order;
  for (std::uint32_t t = 0; t < fast_.size(); ++t)
    if (!fast_[t] && !step_.tensors[t].uses.empty()) order.emplace_back(-wishes[t], -density(t), t);
  std::sort(order.begin(), order.end());
  for (const auto& [wish, gain, t] : order)
    if (room_.has(life(step_.tensors[t]), step_.tensors[t].bytes)) put(t, true);
}

bool Places::replaces_one(std::uint32_t tensor, const std::vector<std::uint32_t>& fast_ones) {
  const Tensor& t = step_.tensors[tensor];
  for (const std::uint32_t other : fast_ones) {
    const Tensor& o = step_.tensors[other];
    if (!fast_[other] || o.last < t.first || t.last < o.first || o.bytes * 4 < t.bytes) continue;
    const double before_us = slow_us_;
    put(other, false);
    if (room_.has(life(t), t.bytes)) {
      put(tensor, true);
      if (slow_us_ < before_us * (1 - 1e-9)) return true;
      put(tensor, false);
    }
    put(other, true);
  }
  return false;
}

void Places::improve() {
  std::vector<std::pair<double, std::uint32_t>> slow_ones, fast_ones;
  for (std::uint32_t t = 0; t < fast_.size(); ++t) {
    if (step_.tensors[t].uses.empty()) continue;
    if (!fast_[t] && gain_us(t) > 0) slow_ones.emplace_back(-gain_us(t), t);
    if (fast_[t]) fast_ones.emplace_back(-density(t), t);
  }
  std::sort(slow_ones.begin(), slow_ones.end());
  std::sort(fast_ones.begin(), fast_ones.end());
  std::vector<std::uint32_t> others;  // losing little comes first
  others.reserve(others.size() + fast_ones.size());
  for (const auto& [gain, t] : fast_ones) others.push_back(t);
  if (slow_ones.size() > most_exchanged) slow_ones.resize(most_exchanged);
  if (others.size() > most_exchanged) others.resize(most_exchanged);
  for (const auto& [gain, t] : slow_ones) replaces_one(t, others);
  fill(std::vector<double>(fast_.size(), 0));
}

Residence Places::residence() const {
  Residence residence(fast_.size());
  for (std::uint32_t t = 0; t < fast_.size(); ++t)
    if (fast_[t]) residence[t] = {life(step_.tensors[t])};
  return residence;
}

}  // namespace terrace::planner::memories
