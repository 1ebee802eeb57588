// The strategies that walk through the records once with a pool of free objects: NAIVE, EQUALITY,
// GREEDY_IN_ORDER.
#include <algorithm>
#include <iterator>
#include <set>

#include "daemon/planner/reuse/tflite/equality_pool.h"
#include "daemon/planner/reuse/tflite/in_use.h"
#include "daemon/planner/reuse/tflite/strategies.h"

namespace terrace::planner::tflite {
namespace {

// Free objects by size, then by id.
using Pool = std::set<std::pair<std::uint64_t, std::uint32_t>>;

// The closest in size. The next larger one wins a tie against the next smaller one.
Pool::iterator closest(const Pool& pool, std::uint64_t size) {
  const auto larger = pool.lower_bound({size, 0});
  if (larger == pool.begin()) return larger;
  const auto smaller = std::prev(larger);
  if (larger == pool.end()) return smaller;
  return size - smaller->first < larger->first - size ? smaller : larger;
}

// The closest in size whose last tensor the record may follow in every order of execution.
Pool::iterator closest_allowed(const Pool& pool, std::uint64_t size, std::uint32_t record,
                               const std::vector<std::uint32_t>& last_tensor, const UsageGraph& graph) {
  auto best = pool.end();
  std::uint64_t best_difference = 0;
  for (auto it = pool.begin(); it != pool.end(); ++it) {
    const std::uint64_t difference = it->first > size ? it->first - size : size - it->first;
    if (best != pool.end() && difference >= best_difference) continue;
    const std::vector<std::uint32_t>& allowed = graph[last_tensor[it->second]];
    if (!std::binary_search(allowed.begin(), allowed.end(), record)) continue;
    best = it;
    best_difference = difference;
  }
  return best;
}

// The object that was found, taken out of the pool and grown, or a new one.
std::uint32_t take(Pool* pool, Pool::iterator found, std::uint64_t size, Objects* objects) {
  if (found == pool->end()) {
    objects->object_bytes.push_back(size);
    return static_cast<std::uint32_t>(objects->object_bytes.size() - 1);
  }
  const std::uint32_t object = found->second;
  pool->erase(found);
  objects->object_bytes[object] = std::max(objects->object_bytes[object], size);
  return object;
}

}  // namespace

Objects naive(Records records) {
  Objects objects;
  for (const Record& record : records) {
    objects.object_of.push_back(static_cast<std::uint32_t>(objects.object_bytes.size()));
    objects.object_bytes.push_back(record.size);
  }
  return objects;
}

Objects equality(Records records) {
  Objects objects;
  assign_equal<std::uint64_t>(records, &objects.object_of, &objects.object_bytes);
  return objects;
}

Objects in_order(Records records, const UsageGraph* reallocation) {
  Objects objects;
  Pool pool;
  InUse in_use;
  std::vector<std::uint32_t> last_tensor;  // of each object
  for (std::uint32_t r = 0; r < records.size(); ++r) {
    const Record& record = records[r];
    in_use.release_before(record.first_task,
                          [&](std::uint32_t object) { pool.emplace(objects.object_bytes[object], object); });
    const auto found = reallocation == nullptr
                           ? closest(pool, record.size)
                           : closest_allowed(pool, record.size, r, last_tensor, *reallocation);
    const std::uint32_t object = take(&pool, found, record.size, &objects);
    objects.object_of.push_back(object);
    last_tensor.resize(objects.object_bytes.size());
    last_tensor[object] = r;
    in_use.push(record.last_task, object);
  }
  return objects;
}

}  // namespace terrace::planner::tflite
