#include "daemon/planner/reuse/skyline/cut.h"

#include <algorithm>

namespace terrace::planner::skyline {
namespace {

// Each round of taking the bottom away costs O(n), and lives nested in each other come apart one by one: what
// is left after so many rounds is left to the search.
constexpr int most_rounds = 64;

struct Group {
  std::vector<Block> blocks;  // by lower, in the instance's time
  std::uint64_t floor_bytes;
  int rounds;
};

bool begins_before(const Block& a, const Block& b) {
  return a.lower != b.lower ? a.lower < b.lower : a.upper > b.upper;
}

std::uint64_t shared_alignment(const Instance& instance) {
  std::uint64_t granule = max_instance_bytes;
  for (const Buffer& b : instance.buffers) {
    if (b.bytes > 0) granule = std::min(granule, b.alignment);
  }
  return granule;
}

std::vector<Block> blocks_of(const Instance& instance) {
  const std::uint64_t granule = shared_alignment(instance);
  std::vector<Block> blocks;
  for (std::uint32_t n = 0; n < instance.buffers.size(); ++n) {
    const Buffer& b = instance.buffers[n];
    if (b.bytes == 0) continue;
    const std::uint64_t bytes = align_up(b.bytes, granule);
    blocks.push_back({bytes, b.lower, b.upper, b.alignment, n, b.lower, b.upper, bytes - b.bytes});
  }
  std::sort(blocks.begin(), blocks.end(), begins_before);
  return blocks;
}

// Groups that no time connects.
std::vector<Group> fall_apart(const Group& group) {
  std::vector<Group> apart;
  std::uint32_t reach = 0;
  for (const Block& b : group.blocks) {
    if (apart.empty() || b.lower >= reach) apart.push_back({{}, group.floor_bytes, group.rounds});
    apart.back().blocks.push_back(b);
    reach = std::max(reach, b.upper);
  }
  return apart;
}

bool one_alignment(const Group& group) {
  return std::all_of(group.blocks.begin(), group.blocks.end(),
                     [&](const Block& b) { return b.alignment == group.blocks.front().alignment; });
}

// The blocks that live as long as the group go to its bottom. With different alignments this could cost a
// gap, so it is left to the search.
bool settle_bottom(Group* group, Parts* all) {
  if (!one_alignment(*group)) return false;
  std::uint32_t end = 0;
  for (const Block& b : group->blocks) end = std::max(end, b.upper);
  const std::uint32_t begin = group->blocks.front().lower;
  const auto rest = std::stable_partition(group->blocks.begin(), group->blocks.end(),
                                          [&](const Block& b) { return b.lower == begin && b.upper == end; });
  for (auto b = group->blocks.begin(); b != rest; ++b) {
    all->offsets[b->buffer] = align_up(group->floor_bytes, b->alignment);
    group->floor_bytes = all->offsets[b->buffer] + b->bytes;
    all->settled_bytes = std::max(all->settled_bytes, b->end_at(all->offsets[b->buffer]));
  }
  const bool any = rest != group->blocks.begin();
  group->blocks.erase(group->blocks.begin(), rest);
  return any;
}

std::uint64_t max_load(const Part& part) {
  std::vector<std::uint64_t> change(part.sections + 1);  // modulo 2^64, so that falls need no sign
  for (const Block& b : part.blocks) {
    change[b.lower] += b.bytes;
    change[b.upper] -= b.bytes;
  }
  std::uint64_t load = 0;
  std::uint64_t most = 0;
  for (const std::uint64_t c : change) most = std::max(most, load += c);
  return most;
}

Part part_of(Group group) {
  std::vector<std::uint32_t> begins;
  for (const Block& b : group.blocks) {
    if (begins.empty() || begins.back() != b.lower) begins.push_back(b.lower);
  }
  const auto section = [&](std::uint32_t time) {
    return static_cast<std::uint32_t>(std::lower_bound(begins.begin(), begins.end(), time) - begins.begin());
  };
  Part part{std::move(group.blocks), static_cast<std::uint32_t>(begins.size()), group.floor_bytes};
  for (Block& b : part.blocks) {
    b.lower = section(b.lower);
    b.upper = section(b.upper);
    part.most_tail = std::max(part.most_tail, b.tail);
  }
  std::sort(part.blocks.begin(), part.blocks.end(), begins_before);
  part.bound_bytes = part.floor_bytes + max_load(part) - part.most_tail;
  return part;
}

}  // namespace

std::uint64_t first_offset(const Part& part) {
  return align_up(part.floor_bytes, part.blocks.front().alignment);
}

Parts cut(const Instance& instance) {
  Parts all;
  all.offsets.assign(instance.buffers.size(), 0);
  std::vector<Group> open = fall_apart({blocks_of(instance), 0, 0});
  while (!open.empty()) {
    Group group = std::move(open.back());
    open.pop_back();
    const bool lower = group.rounds++ < most_rounds && settle_bottom(&group, &all);
    if (group.blocks.empty()) continue;
    if (lower) {
      for (Group& g : fall_apart(group)) open.push_back(std::move(g));
    } else {
      all.parts.push_back(part_of(std::move(group)));
    }
  }
  all.bound_bytes = all.settled_bytes;
  for (const Part& part : all.parts) all.bound_bytes = std::max(all.bound_bytes, part.bound_bytes);
  return all;
}

}  // namespace terrace::planner::skyline
