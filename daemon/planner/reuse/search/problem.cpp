#include "daemon/planner/reuse/search/problem.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace terrace::planner::search {
namespace {

Item item_of(const skyline::Block& b, std::uint32_t n, std::int32_t section) {
  const auto bytes = static_cast<std::int64_t>(b.bytes - b.tail);
  const double width = static_cast<double>(b.end) - b.begin;
  return {bytes,   static_cast<std::int64_t>(b.alignment), section, section,
          width,   width * static_cast<double>(bytes),     0,       n,
          b.buffer};
}

// The part's lives, in the order of the instance's buffers: among equals, the search keeps to it.
std::vector<std::uint32_t> by_buffer(const skyline::Part& part) {
  std::vector<std::uint32_t> order(part.blocks.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(),
            [&](auto a, auto b) { return part.blocks[a].buffer < part.blocks[b].buffer; });
  return order;
}

// Sections close at an end that follows a begin: then the live set is maximal.
Problem in_sections(const skyline::Part& part) {
  const std::vector<std::uint32_t> order = by_buffer(part);
  std::vector<Buffer> lives;
  lives.reserve(order.size());
  for (const std::uint32_t n : order)
    lives.push_back({part.blocks[n].bytes, part.blocks[n].begin, part.blocks[n].end});
  std::vector<std::uint32_t> item_of_life(lives.size());
  Problem problem;
  bool grew = false;
  for (const LifeEvent& e : events_of(lives)) {
    if (e.begins) {
      item_of_life[e.buffer] = static_cast<std::uint32_t>(problem.items.size());
      problem.items.push_back(item_of(part.blocks[order[e.buffer]], order[e.buffer], problem.sections));
    } else {
      if (grew) ++problem.sections;
      problem.items[item_of_life[e.buffer]].last = problem.sections - 1;
    }
    grew = e.begins;
  }
  return problem;
}

void sum_sections(Problem& problem) {
  std::vector<std::int64_t> change(static_cast<std::size_t>(problem.sections) + 1);
  for (const Item& item : problem.items) {
    change[static_cast<std::size_t>(item.first)] += item.bytes;
    change[static_cast<std::size_t>(item.last) + 1] -= item.bytes;
  }
  for (std::size_t s = 1; s < change.size(); ++s) change[s] += change[s - 1];
  problem.bound = *std::max_element(change.begin(), change.end());
  for (Item& item : problem.items)
    item.crowd = *std::max_element(change.begin() + item.first, change.begin() + item.last + 1);
}

}  // namespace

bool live_within(const Instance& instance, std::uint64_t limit) {
  std::uint64_t live = 0;
  for (const LifeEvent& e : events_of(instance.buffers)) {
    const std::uint64_t bytes = instance.buffers[e.buffer].bytes;
    if (e.begins && bytes > limit - live) return false;
    live = e.begins ? live + bytes : live - bytes;
  }
  return true;
}

std::int64_t granule(const Problem& problem) {
  std::int64_t divisor = 0;
  for (const Item& item : problem.items) divisor = std::gcd(divisor, item.bytes);
  for (const Item& item : problem.items)
    if (divisor % item.alignment != 0) return 1;
  return std::max<std::int64_t>(divisor, 1);
}

Problem problem_of(const skyline::Part& part) {
  Problem problem = in_sections(part);
  sum_sections(problem);
  return problem;
}

}  // namespace terrace::planner::search
