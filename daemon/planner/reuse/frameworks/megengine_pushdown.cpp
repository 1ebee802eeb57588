// MegEngine's PUSHDOWN (static_mem_alloc/pushdown.cpp, commit 364afec): first who lies below whom, then
// addresses.
//
// A best-fit heap is played in time order on blocks that may grow: where no free block holds a request, the
// largest free one becomes as large as it, and only if there is none at all a block is added at the end.
// Sizes in that line are not the final addresses; only the order counts: each allocation notes its used
// neighbours. Then every buffer sinks to the highest end of those noted below it, rounded up to the
// alignment. Two buffers that meet in time are joined by a chain of neighbours, so that they cannot overlap.
//
// Of free blocks of one size the original takes the one whose list node has the lowest machine address; here
// it is the one that came into being first, so that the answer is the same everywhere.
#include <algorithm>
#include <list>
#include <set>

#include "daemon/planner/reuse/frameworks/common.h"
#include "daemon/planner/reuse/frameworks/planners.h"

namespace terrace::planner::frameworks {
namespace {

class Line {
 public:
  struct Block;
  using Position = std::list<Block>::iterator;
  struct FreeEntry {
    std::uint64_t bytes;
    std::uint64_t number;  // order of coming into being
    Position block;
    bool operator<(const FreeEntry& other) const {
      return bytes != other.bytes ? bytes < other.bytes : number < other.number;
    }
  };
  struct Block {
    std::uint32_t buffer = no_tensor;  // no_tensor: free
    std::uint64_t bytes = 0;
    std::set<FreeEntry>::iterator entry;  // if free
  };

  Position allocate(std::uint32_t buffer, std::uint64_t bytes) {
    if (free_.empty()) return blocks_.insert(blocks_.end(), Block{buffer, bytes, {}});
    auto fit = free_.lower_bound({bytes, 0, {}});
    if (fit == free_.end()) --fit;  // the largest, which grows
    const Position block = fit->block;
    const std::uint64_t rest = std::max(block->bytes, bytes) - bytes;
    free_.erase(fit);
    *block = Block{buffer, bytes, {}};
    insert_free(std::next(block), rest);
    return block;
  }

  void release(Position block) {
    const std::uint64_t bytes = block->bytes;
    insert_free(blocks_.erase(block), bytes);
  }

  // The used neighbours of a used block; no_tensor if there is none.
  [[nodiscard]] std::uint32_t below(Position block) const {
    while (block != blocks_.begin()) {
      --block;
      if (block->buffer != no_tensor) return block->buffer;
    }
    return no_tensor;
  }

  [[nodiscard]] std::uint32_t above(Position block) const {
    for (++block; block != blocks_.end(); ++block) {
      if (block->buffer != no_tensor) return block->buffer;
    }
    return no_tensor;
  }

 private:
  void absorb(Position block, std::uint64_t& bytes) {
    bytes += block->bytes;
    free_.erase(block->entry);
    blocks_.erase(block);
  }

  void insert_free(Position position, std::uint64_t bytes) {
    if (position != blocks_.end() && position->buffer == no_tensor) absorb(position++, bytes);
    if (position != blocks_.begin() && std::prev(position)->buffer == no_tensor)
      absorb(std::prev(position), bytes);
    if (bytes == 0) return;
    const Position block = blocks_.insert(position, Block{no_tensor, bytes, {}});
    block->entry = free_.insert({bytes, ++created_, block}).first;
  }

  std::list<Block> blocks_;
  std::set<FreeEntry> free_;
  std::uint64_t created_ = 0;
};

using Below = std::vector<std::vector<std::uint32_t>>;

Below neighbours(const std::vector<Buffer>& buffers) {
  Line line;
  std::vector<Line::Position> position(buffers.size());
  Below below(buffers.size());
  for (const LifeEvent& event : events_of(buffers)) {
    const std::uint32_t n = event.buffer;
    if (!event.begins) {
      line.release(position[n]);
      continue;
    }
    position[n] = line.allocate(n, buffers[n].bytes);
    if (const std::uint32_t under = line.below(position[n]); under != no_tensor) below[n].push_back(under);
    if (const std::uint32_t over = line.above(position[n]); over != no_tensor) below[over].push_back(n);
  }
  return below;
}

// Offsets in topological order, depth first with a stack of our own: chains are as long as memory is high.
class Sinker {
 public:
  Sinker(const std::vector<Buffer>& buffers, Below below, std::uint64_t alignment)
      : buffers_(buffers),
        below_(std::move(below)),
        alignment_(alignment),
        offsets_(buffers.size(), unknown) {}

  std::vector<std::uint64_t> run() && {
    for (std::uint32_t n = 0; n < offsets_.size(); ++n) sink(n);
    return std::move(offsets_);
  }

 private:
  static constexpr std::uint64_t unknown = ~std::uint64_t{0};

  void sink(std::uint32_t root) {
    std::vector<std::uint32_t> stack{root};
    while (!stack.empty()) {
      const std::uint32_t n = stack.back();
      std::uint64_t offset = 0;
      bool waits = false;
      for (const std::uint32_t under : below_[n]) {
        if (offsets_[under] == unknown) {
          stack.push_back(under);
          waits = true;
        } else {
          offset = std::max(offset, offsets_[under] + buffers_[under].bytes);
        }
      }
      if (waits) continue;
      if (offsets_[n] == unknown) offsets_[n] = align_up(offset, alignment_);
      stack.pop_back();
    }
  }

  const std::vector<Buffer>& buffers_;
  Below below_;
  std::uint64_t alignment_;
  std::vector<std::uint64_t> offsets_;
};

}  // namespace

Result<Placement> place_pushdown(const Instance& instance, const SearchControl& /*control*/) {
  const Sizes sizes = aligned_sizes(instance);
  const std::vector<Buffer>& buffers = instance.buffers;
  Placement placement{Sinker(buffers, neighbours(buffers), sizes.alignment).run(), 0};
  for (std::size_t n = 0; n < buffers.size(); ++n) {
    const std::uint64_t end = align_up(placement.offsets[n] + buffers[n].bytes, sizes.alignment);
    placement.total_bytes = std::max(placement.total_bytes, end);
  }
  return ok(std::move(placement));
}

}  // namespace terrace::planner::frameworks
