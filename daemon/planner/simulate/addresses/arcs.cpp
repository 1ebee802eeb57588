#include "daemon/planner/simulate/addresses/arcs.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace terrace::planner::addresses {
namespace {

// A circle's length, and a step's: every change, and the time before the first one.
std::uint32_t length_of(const std::vector<Stay>& stays) {
  std::uint32_t last = 0;
  for (const Stay& s : stays) last = std::max({last, s.from, s.until == Stay::to_the_end ? 0 : s.until});
  return last + 1;
}

std::uint32_t end_of(const Stay& s, std::uint32_t length) {
  return s.until == Stay::to_the_end ? length : s.until;
}

// On a circle: `end` - `begin` changes from `begin` on, beyond its length where it goes on across the end.
struct Arc {
  std::uint64_t bytes = 0;
  std::uint32_t begin = 0, end = 0;
};

struct Circle {
  std::uint32_t length = 1;
  std::vector<Arc> arcs;
  std::vector<std::uint32_t> arc_of;  // per stay
  bool full(const Arc& a) const { return a.end - a.begin >= length; }
};

using Content = std::tuple<std::uint32_t, bool, std::uint64_t>;  // tensor, coded, bytes

// Nothing where a content lies there at one of the two ends alone.
std::optional<Circle> circle_of(const std::vector<Stay>& stays) {
  Circle circle{length_of(stays), {}, {}};
  std::map<Content, std::uint32_t> at_begin;  // arcs
  circle.arcs.reserve(stays.size());
  circle.arc_of.reserve(stays.size());
  for (const Stay& s : stays) {
    const auto arc = static_cast<std::uint32_t>(circle.arcs.size());
    if (s.from == 0) at_begin.emplace(Content{s.tensor, s.coded, s.bytes}, arc);
    circle.arcs.push_back({s.bytes, s.from, end_of(s, circle.length)});
    circle.arc_of.push_back(arc);
  }
  for (std::size_t i = 0; i < stays.size(); ++i) {
    const Stay& s = stays[i];
    if (s.until != Stay::to_the_end) continue;
    const auto found = at_begin.find({s.tensor, s.coded, s.bytes});
    if (found == at_begin.end()) return std::nullopt;
    Arc& from_begin = circle.arcs[found->second];
    if (s.from != 0) {
      from_begin = {s.bytes, s.from, circle.length + from_begin.end};
      circle.arcs[i].bytes = 0;
      circle.arc_of[i] = found->second;
    }
    at_begin.erase(found);
  }
  if (!at_begin.empty()) return std::nullopt;
  return circle;
}

// The change at which the fewest bytes lie that neither begin there nor lie there all the time.
std::uint32_t best_cut(const Circle& circle) {
  std::vector<std::uint64_t> inside(circle.length + 1, 0);  // differences, which may wrap
  const auto add = [&](std::uint32_t from, std::uint32_t to, std::uint64_t bytes) {
    if (from >= to) return;
    inside[from] += bytes;
    inside[to] -= bytes;
  };
  for (const Arc& a : circle.arcs) {
    if (circle.full(a)) continue;
    add(a.begin + 1, std::min(a.end, circle.length), a.bytes);
    if (a.end > circle.length) add(0, a.end - circle.length, a.bytes);
  }
  std::uint32_t best = 0;
  std::uint64_t fewest = inside[0];
  std::uint64_t bytes = inside[0];
  for (std::uint32_t cut = 1; cut < circle.length; ++cut) {
    bytes += inside[cut];
    if (bytes >= fewest) continue;
    fewest = bytes;
    best = cut;
  }
  return best;
}

Buffer opened(const Circle& circle, const Arc& arc, std::uint32_t cut) {
  const std::uint32_t begin = (arc.begin + circle.length - cut) % circle.length;
  const std::uint32_t end = begin + (arc.end - arc.begin);
  if (end > circle.length) return {arc.bytes, 0, circle.length};
  return {arc.bytes, begin, end};
}

}  // namespace

Arcs once(const SimulationReport& report) {
  Arcs all;
  const std::uint32_t length = length_of(report.stays);
  all.instance.buffers.reserve(report.stays.size());
  all.buffer_of.reserve(report.stays.size());
  for (const Stay& s : report.stays) {
    all.buffer_of.push_back(static_cast<std::uint32_t>(all.instance.buffers.size()));
    all.instance.buffers.push_back({s.bytes, s.from, end_of(s, length)});
  }
  return all;
}

std::optional<Arcs> repeated(const SimulationReport& report) {
  std::optional<Circle> circle = circle_of(report.stays);
  if (!circle) return std::nullopt;
  const std::uint32_t cut = best_cut(*circle);
  Arcs all;
  all.instance.buffers.reserve(circle->arcs.size());
  for (const Arc& arc : circle->arcs) all.instance.buffers.push_back(opened(*circle, arc, cut));
  all.buffer_of = std::move(circle->arc_of);
  return all;
}

}  // namespace terrace::planner::addresses
