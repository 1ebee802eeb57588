// Graph colouring by the left-edge algorithm (Hashimoto and Stevens, DAC 1971), one size at a time.
//
// Lives are intervals, and interval graphs are perfect: taking buffers of one size by their begin and giving
// each the lowest colour that is free uses exactly as many colours as are alive together at most. So it is
// optimal where all buffers have one size, and wasteful where there are many: sizes share nothing.
#include <functional>
#include <map>
#include <queue>

#include "daemon/planner/reuse/frameworks/common.h"
#include "daemon/planner/reuse/frameworks/planners.h"

namespace terrace::planner::frameworks {
namespace {

using Lowest = std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>>;

// The colours of one size: the free ones, and the objects that all of them are.
struct Colours {
  Lowest free;
  std::vector<std::uint32_t> objects;
};

std::uint32_t take(Colours& colours, std::uint64_t bytes, Objects& objects) {
  if (colours.free.empty()) {
    colours.free.push(static_cast<std::uint32_t>(colours.objects.size()));
    colours.objects.push_back(static_cast<std::uint32_t>(objects.object_bytes.size()));
    objects.object_bytes.push_back(bytes);
  }
  const std::uint32_t colour = colours.free.top();
  colours.free.pop();
  return colour;
}

}  // namespace

Result<Placement> place_left_edge(const Instance& instance, const SearchControl& /*control*/) {
  const Sizes sizes = aligned_sizes(instance);
  std::map<std::uint64_t, Colours> by_size;
  std::vector<std::uint32_t> colour_of(instance.buffers.size(), 0);
  Objects objects{std::vector<std::uint32_t>(instance.buffers.size(), 0), {}};
  for (const LifeEvent& event : events_of(instance.buffers)) {
    const std::uint64_t bytes = sizes.bytes[event.buffer];
    Colours& colours = by_size[bytes];
    if (event.begins) {
      colour_of[event.buffer] = take(colours, bytes, objects);
      objects.object_of[event.buffer] = colours.objects[colour_of[event.buffer]];
    } else {
      colours.free.push(colour_of[event.buffer]);
    }
  }
  if (objects.object_bytes.empty()) objects.object_bytes.push_back(0);  // where all empty buffers lie
  return ok(offsets_of(objects));
}

}  // namespace terrace::planner::frameworks
