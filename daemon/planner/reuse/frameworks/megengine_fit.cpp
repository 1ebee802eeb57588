// MegEngine's BEST_FIT (static_mem_alloc/best_fit.cpp, commit 364afec): a heap with coalescing, in time
// order.
//
// At each time what ends is freed, then what begins takes the smallest free chunk that holds it from its
// first aligned address on (of equals the one with the lowest such address). Where none does it goes to the
// top, which is then aligned: a free chunk below the top is not extended.
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "daemon/planner/reuse/frameworks/common.h"
#include "daemon/planner/reuse/frameworks/planners.h"

namespace terrace::planner::frameworks {
namespace {

class Heap {
 public:
  explicit Heap(std::uint64_t alignment) : alignment_(alignment) {}

  std::uint64_t allocate(std::uint64_t bytes) {
    const auto fit = by_size_.lower_bound({bytes, 0, 0});
    if (fit == by_size_.end()) return append(bytes);
    const auto [usable, address, begin] = *fit;
    const std::uint64_t end = address + usable;
    remove(by_address_.find(begin));
    insert(begin, address - begin);
    insert(address + bytes, end - address - bytes);
    return address;
  }

  void free(std::uint64_t address, std::uint64_t bytes) {
    auto next = by_address_.lower_bound(address);
    if (next != by_address_.begin() && std::prev(next)->first + std::prev(next)->second == address) {
      const auto before = std::prev(next);
      address = before->first;
      bytes += before->second;
      remove(before);
    }
    if (next != by_address_.end() && next->first == address + bytes) {
      bytes += next->second;
      remove(next);
    }
    insert(address, bytes);
  }

  [[nodiscard]] std::uint64_t top() const { return top_; }

 private:
  using ByAddress = std::map<std::uint64_t, std::uint64_t>;                // begin -> bytes
  using Usable = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;  // bytes, aligned address, begin

  std::uint64_t append(std::uint64_t bytes) {
    const std::uint64_t address = top_;
    top_ = align_up(address + bytes, alignment_);
    insert(address + bytes, top_ - address - bytes);
    return address;
  }

  [[nodiscard]] bool usable(std::uint64_t begin, std::uint64_t bytes, Usable& usable) const {
    const std::uint64_t address = align_up(begin, alignment_);
    if (address - begin >= bytes) return false;
    usable = {bytes - (address - begin), address, begin};
    return true;
  }

  void insert(std::uint64_t begin, std::uint64_t bytes) {
    if (bytes == 0) return;
    by_address_.emplace(begin, bytes);
    if (Usable entry; usable(begin, bytes, entry)) by_size_.insert(entry);
  }

  void remove(ByAddress::iterator chunk) {
    if (Usable entry; usable(chunk->first, chunk->second, entry)) by_size_.erase(entry);
    by_address_.erase(chunk);
  }

  std::uint64_t alignment_;
  std::uint64_t top_ = 0;
  ByAddress by_address_;
  std::set<Usable> by_size_;
};

}  // namespace

Result<Placement> place_megengine_best_fit(const Instance& instance, const SearchControl& /*control*/) {
  const Sizes sizes = aligned_sizes(instance);
  Heap heap(sizes.alignment);
  Placement placement{std::vector<std::uint64_t>(instance.buffers.size()), 0};
  for (const LifeEvent& event : events_of(instance.buffers)) {
    const std::uint64_t bytes = instance.buffers[event.buffer].bytes;
    if (event.begins) {
      placement.offsets[event.buffer] = heap.allocate(bytes);
    } else {
      heap.free(placement.offsets[event.buffer], bytes);
    }
  }
  placement.total_bytes = heap.top();
  return ok(std::move(placement));
}

}  // namespace terrace::planner::frameworks
