#include "daemon/planner/recompute/dtr/addresses.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <limits>

namespace terrace::planner::recompute {

Addresses::Addresses(std::uint64_t bytes) {
  if (bytes > 0) blocks_[0] = {bytes, free_block};
}

std::optional<std::uint64_t> Addresses::take(std::uint64_t bytes, std::uint32_t owner, End end) {
  auto best = blocks_.end();
  for (auto b = blocks_.begin(); b != blocks_.end(); ++b) {
    if (b->second.owner != free_block || b->second.bytes < bytes) continue;
    if (best == blocks_.end() || b->second.bytes < best->second.bytes) best = b;
  }
  if (best == blocks_.end()) return std::nullopt;
  const std::uint64_t free_begin = best->first, free_bytes = best->second.bytes;
  const std::uint64_t begin = end == End::low ? free_begin : free_begin + free_bytes - bytes;
  blocks_[begin] = {bytes, owner};
  if (bytes == free_bytes) return begin;
  const std::uint64_t rest = end == End::low ? free_begin + bytes : free_begin;
  blocks_[rest] = {free_bytes - bytes, free_block};
  return begin;
}

void Addresses::give_back(std::uint64_t begin) {
  auto block = blocks_.find(begin);
  block->second.owner = free_block;
  const auto next = std::next(block);
  if (next != blocks_.end() && next->second.owner == free_block) {
    block->second.bytes += next->second.bytes;
    blocks_.erase(next);
  }
  if (block == blocks_.begin()) return;
  const auto before = std::prev(block);
  if (before->second.owner != free_block) return;
  before->second.bytes += block->second.bytes;
  blocks_.erase(block);
}

std::uint64_t Addresses::largest_free_bytes() const {
  std::uint64_t most = 0;
  for (const auto& [begin, block] : blocks_)
    if (block.owner == free_block) most = std::max(most, block.bytes);
  return most;
}

// The row grows at its high end until it is large enough, and then shrinks at its low end as long as it is.
std::vector<std::uint32_t> Addresses::cheapest_row(std::uint64_t bytes, const Cost& cost) const {
  struct Part {
    std::uint32_t owner;
    std::uint64_t bytes;
    double cost;
  };
  std::deque<Part> row;
  std::vector<std::uint32_t> best;
  double least = std::numeric_limits<double>::infinity();
  std::uint64_t row_bytes = 0;
  for (const auto& [begin, block] : blocks_) {
    std::optional<double> price = 0;
    if (block.owner == no_storage) price.reset();
    if (block.owner < no_storage) price = cost(block.owner);
    if (!price) {
      row.clear();
      row_bytes = 0;
      continue;
    }
    row.push_back({block.owner, block.bytes, *price});
    row_bytes += block.bytes;
    while (!row.empty() && row_bytes - row.front().bytes >= bytes) {
      row_bytes -= row.front().bytes;
      row.pop_front();
    }
    if (row_bytes < bytes) continue;
    double sum = 0;
    for (const Part& part : row) sum += part.cost;
    if (!best.empty() && sum >= least) continue;
    least = sum;
    best.clear();
    for (const Part& part : row)
      if (part.owner < no_storage) best.push_back(part.owner);
  }
  return best;
}

}  // namespace terrace::planner::recompute
