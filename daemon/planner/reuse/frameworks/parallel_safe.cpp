// Reuse that adds no dependency, so that whatever the graph lets run at the same time still may.
//
// A buffer y may take memory that x had only if every operation that names x must end before the one that
// makes y begins, in every order the graph allows: each is an ancestor of y's producer. (TFLite states the
// same as its ReallocationGraph; MXNet comes near it with node colours.) Following the last holder is enough:
// it took the memory under the same rule, so that its own operations come after those of all holders before.
//
// Which free object: the one whose size differs least from what is asked, then the one made first; it grows
// where it is too small. A tensor that nothing in the trace makes (an input) gets memory of its own, and so
// does a persistent one.
#include <algorithm>

#include "daemon/planner/order/dependencies.h"
#include "daemon/planner/reuse/frameworks/common.h"
#include "daemon/planner/reuse/frameworks/planners.h"

namespace terrace::planner::frameworks {
namespace {

constexpr std::uint32_t nobody = 0xffffffffU;

struct Uses {
  std::uint32_t producer = nobody;    // nobody: none in this trace
  std::vector<std::uint32_t> namers;  // all operations that name it
};

std::vector<Uses> uses_of_tensors(const wire::Trace& trace) {
  std::vector<Uses> uses(trace.tensors.size());
  for (std::uint32_t op = 0; op < trace.ops.size(); ++op) {
    for (const std::uint32_t t : trace.ops[op].inputs) uses[t].namers.push_back(op);
    for (const std::uint32_t t : trace.ops[op].outputs) {
      if (uses[t].namers.empty() && !trace.tensors[t].persistent) uses[t].producer = op;
      uses[t].namers.push_back(op);
    }
  }
  return uses;
}

// Per buffer; one without a tensor is a workspace, made and used by the operation at which it begins.
std::vector<Uses> uses_of_buffers(const Instance& instance) {
  const std::vector<Uses> tensors = uses_of_tensors(*instance.trace);
  std::vector<Uses> uses;
  for (const Buffer& b : instance.buffers)
    uses.push_back(b.tensor < tensors.size() ? tensors[b.tensor] : Uses{b.lower, {b.lower}});
  return uses;
}

class SafeAllocator {
 public:
  SafeAllocator(const std::vector<std::uint64_t>& bytes, std::vector<Uses> uses)
      : bytes_(bytes), uses_(std::move(uses)), objects_{std::vector<std::uint32_t>(bytes.size(), 0), {}} {}

  // `sweep` stands at the buffer's producer.
  void place(std::uint32_t n, const AncestorSweep& sweep) {
    const std::size_t best = closest(n, sweep);
    if (best == free_.size()) {
      place_alone(n);
      return;
    }
    const std::uint32_t object = objects_.object_of[free_[best]];
    free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(best));
    objects_.object_bytes[object] = std::max(objects_.object_bytes[object], bytes_[n]);
    objects_.object_of[n] = object;
  }

  void place_alone(std::uint32_t n) {
    objects_.object_of[n] = static_cast<std::uint32_t>(objects_.object_bytes.size());
    objects_.object_bytes.push_back(bytes_[n]);
  }

  void release(std::uint32_t n) { free_.push_back(n); }

  [[nodiscard]] std::uint32_t producer(std::uint32_t n) const { return uses_[n].producer; }
  [[nodiscard]] const Objects& objects() const { return objects_; }

 private:
  [[nodiscard]] bool safe(std::uint32_t holder, const AncestorSweep& sweep) const {
    const std::vector<std::uint32_t>& namers = uses_[holder].namers;
    return std::all_of(namers.begin(), namers.end(), [&](auto op) { return sweep.is_ancestor(op); });
  }

  [[nodiscard]] std::size_t closest(std::uint32_t n, const AncestorSweep& sweep) const {
    std::size_t best = free_.size();
    std::pair<std::uint64_t, std::uint32_t> least{~std::uint64_t{0}, nobody};
    for (std::size_t i = 0; i < free_.size(); ++i) {
      const std::uint32_t object = objects_.object_of[free_[i]];
      const std::uint64_t size = objects_.object_bytes[object];
      const std::uint64_t differs = std::max(size, bytes_[n]) - std::min(size, bytes_[n]);
      if (std::pair(differs, object) >= least || !safe(free_[i], sweep)) continue;
      least = {differs, object};
      best = i;
    }
    return best;
  }

  const std::vector<std::uint64_t>& bytes_;
  std::vector<Uses> uses_;
  Objects objects_;
  std::vector<std::uint32_t> free_;  // last holders of the objects nothing alive lies in
};

std::string unfit(const Instance& instance) {
  if (instance.trace == nullptr)
    return "parallel_safe needs a trace: only its graph says what may run together";
  if (!instance.trace->reads_known)
    return "parallel_safe needs to know what each operation reads, and this trace does not say so";
  for (const Buffer& b : instance.buffers) {
    if (b.tensor == no_tensor ? b.lower >= instance.trace->ops.size()
                              : b.tensor >= instance.trace->tensors.size())
      return "a buffer of the instance belongs to no tensor or operation of its trace";
  }
  return {};
}

}  // namespace

Result<Placement> place_parallel_safe(const Instance& instance, const SearchControl& /*control*/) {
  if (std::string why = unfit(instance); !why.empty()) return refused<Placement>(why);
  const Sizes sizes = aligned_sizes(instance);
  const Dependencies graph = dependencies_of(*instance.trace);
  AncestorSweep sweep(graph);
  std::uint32_t reached = 0;  // operations the sweep has advanced to
  SafeAllocator allocator(sizes.bytes, uses_of_buffers(instance));
  for (const LifeEvent& event : events_of(instance.buffers)) {
    const std::uint32_t n = event.buffer;
    if (!event.begins) {
      allocator.release(n);
    } else if (allocator.producer(n) != event.time) {
      allocator.place_alone(n);
    } else {
      for (; reached <= event.time; ++reached) sweep.advance();
      allocator.place(n, sweep);
    }
  }
  Objects objects = allocator.objects();
  if (objects.object_bytes.empty()) objects.object_bytes.push_back(0);  // where all empty buffers lie
  return ok(offsets_of(objects));
}

}  // namespace terrace::planner::frameworks
