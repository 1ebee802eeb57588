#include "daemon/planner/reuse/search/contained.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace terrace::planner::search {

Contained::Contained(const Problem& problem, std::span<const std::uint32_t> order)
    : position_(order.size()), leaves_(std::bit_ceil(order.size())), nodes_(leaves_ * 2) {
  for (const std::uint32_t item : order) {
    first_of_.push_back(problem.items[item].first);
    last_of_.push_back(problem.items[item].last);
  }
  std::vector<std::uint32_t> ranks(order.size());
  std::iota(ranks.begin(), ranks.end(), 0U);
  std::stable_sort(ranks.begin(), ranks.end(), [&](auto a, auto b) { return first_of_[a] < first_of_[b]; });
  for (std::uint32_t position = 0; position < ranks.size(); ++position) {
    position_[ranks[position]] = position;
    sorted_first_.push_back(first_of_[ranks[position]]);
  }
  for (std::size_t width = 1; width <= leaves_; width *= 2)
    for (std::size_t from = 0; from < ranks.size(); from += width)
      fill((leaves_ + from) / width, std::span(ranks).subspan(from, std::min(width, ranks.size() - from)));
}

void Contained::fill(std::size_t node, std::span<const std::uint32_t> ranks) {
  Node& filled = nodes_[node];
  for (const std::uint32_t rank : ranks) filled.entries.emplace_back(last_of_[rank], rank);
  std::sort(filled.entries.begin(), filled.entries.end());
  const std::size_t count = ranks.size();
  filled.least.assign(count * 2, none);
  for (std::size_t k = 0; k < count; ++k) filled.least[count + k] = filled.entries[k].second;
  for (std::size_t k = count - 1; k > 0; --k)
    filled.least[k] = std::min(filled.least[2 * k], filled.least[2 * k + 1]);
}

std::uint32_t Contained::least_of_prefix(const Node& node, std::int32_t last) {
  const std::size_t count = node.entries.size();
  const auto end = std::upper_bound(node.entries.begin(), node.entries.end(), std::pair{last, none});
  std::size_t to = static_cast<std::size_t>(end - node.entries.begin()) + count;
  std::uint32_t least = none;
  for (std::size_t from = count; from < to; from /= 2, to /= 2) {
    if (from % 2 == 1) least = std::min(least, node.least[from++]);
    if (to % 2 == 1) least = std::min(least, node.least[--to]);
  }
  return least;
}

std::uint32_t Contained::first_within(std::int32_t first, std::int32_t last) const {
  const auto position = [&](std::int32_t section) {
    return static_cast<std::size_t>(std::lower_bound(sorted_first_.begin(), sorted_first_.end(), section) -
                                    sorted_first_.begin());
  };
  std::size_t from = position(first) + leaves_;
  std::size_t to = position(last + 1) + leaves_;
  std::uint32_t least = none;
  for (; from < to; from /= 2, to /= 2) {
    if (from % 2 == 1) least = std::min(least, least_of_prefix(nodes_[from++], last));
    if (to % 2 == 1) least = std::min(least, least_of_prefix(nodes_[--to], last));
  }
  return least;
}

void Contained::remove_from(Node& node, std::uint32_t rank) const {
  const std::size_t count = node.entries.size();
  const auto entry =
      std::lower_bound(node.entries.begin(), node.entries.end(), std::pair{last_of_[rank], rank});
  std::size_t k = static_cast<std::size_t>(entry - node.entries.begin()) + count;
  node.least[k] = none;
  for (k /= 2; k > 0; k /= 2) node.least[k] = std::min(node.least[2 * k], node.least[2 * k + 1]);
}

void Contained::remove(std::uint32_t rank) {
  for (std::size_t node = position_[rank] + leaves_; node > 0; node /= 2) remove_from(nodes_[node], rank);
}

}  // namespace terrace::planner::search
