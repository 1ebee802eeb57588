#include "daemon/planner/reuse/portfolio/exact.h"

#include <algorithm>
#include <bit>

#include "daemon/planner/reuse/search/part_search.h"

namespace terrace::planner::portfolio {
namespace {

constexpr std::size_t most_blocks = 1024;
constexpr std::uint64_t first_nodes = 4096;

// A node takes about as long as 5 placements in a pass for 150 blocks, and as 140 for 1,000.
std::uint64_t work_per_node(std::size_t blocks) {
  return std::max<std::uint64_t>(4, std::uint64_t{blocks} * blocks / 8192);
}

}  // namespace

ExactTries::ExactTries(const Part& part, std::uint64_t seed, const std::function<bool()>& stop)
    : floor_bytes_(skyline::first_offset(part)),
      possible_(part.blocks.size() <= most_blocks),
      seed_(seed),
      stop_(stop) {
  if (possible_) problem_ = search::problem_of(part);
}

std::uint64_t ExactTries::luby(std::uint64_t n) {
  const std::uint64_t power = std::bit_floor(n);
  if (n == 2 * power - 1) return power;
  return luby(n - power + 1);
}

ExactTries::Answer ExactTries::look(std::uint64_t low_bytes, std::uint64_t best_bytes) {
  const std::uint64_t open = best_bytes - 1 - low_bytes;
  const std::uint64_t end = low_bytes + (tries_ % 2 == 0 ? 0 : tries_ % 4 == 1 ? open / 2 : open - open / 16);
  const std::uint64_t length = luby(++tries_);
  search::SearchLimits limits;
  limits.nodes = first_nodes * length;
  limits.stop = stop_;
  limits.seed = length > longest_ ? 0 : seed_ + tries_;
  longest_ = std::max(longest_, length);
  search::PartSearch search(problem_, static_cast<std::int64_t>(end - floor_bytes_), limits);
  const search::Verdict verdict = search.run();
  work_ += (search.nodes() + 16) * work_per_node(problem_.items.size());
  if (verdict == search::Verdict::infeasible) return {std::nullopt, end + 1};
  if (verdict != search::Verdict::found) return {};
  std::vector<std::uint64_t> offsets(problem_.items.size());
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    offsets[problem_.items[i].block] = floor_bytes_ + static_cast<std::uint64_t>(search.offsets()[i]);
  }
  return {std::move(offsets), 0};
}

}  // namespace terrace::planner::portfolio
