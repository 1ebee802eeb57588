// MXNet's MXPlanMemory (src/nnvm/plan_memory.cc, commit 01d3f7e): shared objects, in execution order.
//
// An operation's outputs are requested largest first, of equals the last one first. A request of s bytes
// takes the smallest free object of s to s × range bytes; failing that, the largest one from s / range up,
// which grows to s; failing that, a new one. Objects are freed when the operation that reads them last has
// its outputs; of equal free objects the one freed first is taken first when searching up, last when down.
//
// With a trace, what ends at an operation is freed in the order in which it names its tensors. Not applied
// here: writing over inputs, which no placement of separate buffers can show (in_place.h merges them before
// planning), and node colours (off by default there; parallel_safe is the policy for that).
#include <algorithm>
#include <map>

#include "daemon/planner/reuse/frameworks/common.h"
#include "daemon/planner/reuse/frameworks/planners.h"

namespace terrace::planner::frameworks {
namespace {

constexpr std::uint64_t default_range = 16;

class GraphAllocator {
 public:
  explicit GraphAllocator(std::uint64_t range) : range_(range) {}

  std::uint32_t request(std::uint64_t bytes) {
    if (range_ == 0) return add(bytes);
    const auto begin = free_.lower_bound(bytes / range_);
    const auto exact = free_.lower_bound(bytes);
    const bool unbounded = bytes > most_bytes / range_;
    const auto end = unbounded ? free_.end() : free_.upper_bound(bytes * range_);
    if (exact != end) return reuse(exact, bytes);
    if (exact != begin) return reuse(std::prev(exact), bytes);
    return add(bytes);
  }

  void release(std::uint32_t object) { free_.emplace(object_bytes_[object], object); }

  std::vector<std::uint64_t> object_bytes() && { return std::move(object_bytes_); }

 private:
  static constexpr std::uint64_t most_bytes = ~std::uint64_t{0};
  using Free = std::multimap<std::uint64_t, std::uint32_t>;

  std::uint32_t add(std::uint64_t bytes) {
    object_bytes_.push_back(bytes);
    return static_cast<std::uint32_t>(object_bytes_.size() - 1);
  }

  std::uint32_t reuse(Free::const_iterator entry, std::uint64_t bytes) {
    const std::uint32_t object = entry->second;
    object_bytes_[object] = std::max(object_bytes_[object], bytes);
    free_.erase(entry);
    return object;
  }

  std::uint64_t range_;
  Free free_;
  std::vector<std::uint64_t> object_bytes_;
};

// When each buffer is freed among those of one operation: where the trace names it last, or by index.
std::vector<std::uint64_t> release_ranks(const Instance& instance) {
  std::vector<std::uint64_t> ranks(instance.buffers.size());
  for (std::size_t n = 0; n < ranks.size(); ++n) ranks[n] = n;
  if (instance.trace == nullptr) return ranks;
  std::vector<std::uint64_t> last(instance.trace->tensors.size(), 0);
  std::uint64_t named = 0;
  for (const wire::TraceOp& op : instance.trace->ops) {
    for (const std::uint32_t t : op.inputs) last[t] = ++named;
    for (const std::uint32_t t : op.outputs) last[t] = ++named;
  }
  for (std::size_t n = 0; n < ranks.size(); ++n) {
    const std::uint32_t tensor = instance.buffers[n].tensor;
    ranks[n] = tensor < last.size() ? last[tensor] : named + n;
  }
  return ranks;
}

std::vector<LifeEvent> requests_in_order(const Instance& instance, const std::vector<std::uint64_t>& bytes) {
  const std::vector<std::uint64_t> ranks = release_ranks(instance);
  std::vector<LifeEvent> events = events_of(instance.buffers);
  std::sort(events.begin(), events.end(), [&](const LifeEvent& a, const LifeEvent& b) {
    if (a.time != b.time) return a.time < b.time;
    if (a.begins != b.begins) return b.begins;
    if (!a.begins) return ranks[a.buffer] < ranks[b.buffer];
    return bytes[a.buffer] != bytes[b.buffer] ? bytes[a.buffer] > bytes[b.buffer] : a.buffer > b.buffer;
  });
  return events;
}

std::uint64_t total_of(const Objects& objects) {
  std::uint64_t total = 0;
  for (const std::uint64_t bytes : objects.object_bytes) total += bytes;
  return total;
}

}  // namespace

Objects mxnet_objects(const Instance& instance, const std::vector<std::uint64_t>& bytes,
                      std::uint64_t match_range) {
  GraphAllocator allocator(match_range);
  Objects objects{std::vector<std::uint32_t>(bytes.size(), 0), {}};
  for (const LifeEvent& event : requests_in_order(instance, bytes)) {
    if (event.begins) {
      objects.object_of[event.buffer] = allocator.request(bytes[event.buffer]);
    } else {
      allocator.release(objects.object_of[event.buffer]);
    }
  }
  objects.object_bytes = std::move(allocator).object_bytes();
  if (objects.object_bytes.empty()) objects.object_bytes.push_back(0);  // where all empty buffers lie
  return objects;
}

Result<Placement> place_mxnet(const Instance& instance, const SearchControl& /*control*/) {
  const Sizes sizes = aligned_sizes(instance);
  return ok(offsets_of(mxnet_objects(instance, sizes.bytes, default_range)));
}

Result<Placement> place_mxnet_search(const Instance& instance, const SearchControl& /*control*/) {
  const Sizes sizes = aligned_sizes(instance);
  Objects best = mxnet_objects(instance, sizes.bytes, 1);
  for (std::uint64_t range = 2; range <= default_range; range *= 2) {
    Objects objects = mxnet_objects(instance, sizes.bytes, range);
    if (total_of(objects) < total_of(best)) best = std::move(objects);
  }
  return ok(offsets_of(best));
}

}  // namespace terrace::planner::frameworks
