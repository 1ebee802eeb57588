#include "daemon/planner/reuse/search/activity.h"

#include <algorithm>
#include <numeric>

#include "daemon/planner/reuse/search/failed_states.h"

namespace terrace::planner::search {
namespace {

// A failure counts half after about 700 more.
constexpr double growth = 1.001;
constexpr double too_large = 1e100;

double key_of(const Item& item, char key) {
  switch (key) {
    case 'A':
      return item.area;
    case 'T':
      return static_cast<double>(item.crowd);
    case 'W':
      return item.width;
    default:
      return static_cast<double>(item.bytes);
  }
}

}  // namespace

void Activity::next_failure() {
  step_ *= growth;
  if (step_ < too_large) return;
  for (double& value : values_) value /= too_large;
  step_ /= too_large;
}

std::vector<std::uint32_t> order_by(const Problem& problem, const char* keys, const Activity& activity,
                                    std::uint64_t seed) {
  std::vector<std::uint32_t> order(problem.items.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto value = [&](std::uint32_t i, char key) {
    return key == 'V' ? activity[i] : key_of(problem.items[i], key);
  };
  const auto tie = [&](std::uint32_t i) {
    return seed == 0 ? problem.items[i].buffer : hash_of(i, static_cast<std::int64_t>(seed)).low;
  };
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    for (const char* key = keys; *key != 0; ++key) {
      const double x = value(a, *key);
      const double y = value(b, *key);
      if (x != y) return x > y;
    }
    return tie(a) != tie(b) ? tie(a) < tie(b) : a < b;
  });
  return order;
}

}  // namespace terrace::planner::search
