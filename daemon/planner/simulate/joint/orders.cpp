#include "daemon/planner/simulate/joint/orders.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "daemon/planner/order/profile.h"

namespace terrace::planner::joint {
namespace {

constexpr double worth_trying = 0.97;  // of what the recorded order lacks
constexpr std::size_t most_orders = 2;
constexpr std::size_t most_operations_to_order = 100'000;
// A beam of 32 for 1,000 operations, none for some thousand.
constexpr OrderEffort bounded_effort{32, 100'000'000, 12, 50};

struct Asked {
  Order order;
  double missing = 0;
};

class Asking {
 public:
  Asking(const wire::Trace& trace, const Machine& machine) : trace_(trace), machine_(machine) {
    Order recorded(trace.ops.size());
    std::iota(recorded.begin(), recorded.end(), 0U);
    recorded_missing_ = missing_byte_us(trace, machine, recorded);
    recorded_peak_ = peak_bytes(trace, recorded);
  }

  bool lacks() const { return recorded_missing_ > 0; }

  void ask(Order order) {
    const double missing = missing_byte_us(trace_, machine_, order);
    if (missing > recorded_missing_ * worth_trying) return;
    if (std::none_of(asked_.begin(), asked_.end(), [&](const Asked& a) { return a.order == order; }))
      asked_.push_back({std::move(order), missing});
  }

  void ask_if_lower(Order order) {
    if (peak_bytes(trace_, order) < recorded_peak_) ask(std::move(order));
  }

  std::vector<Order> best() {
    std::stable_sort(asked_.begin(), asked_.end(),
                     [](const Asked& a, const Asked& b) { return a.missing < b.missing; });
    std::vector<Order> orders;
    for (Asked& a : asked_)
      if (orders.size() < most_orders) orders.push_back(std::move(a.order));
    return orders;
  }

 private:
  const wire::Trace& trace_;
  const Machine& machine_;
  double recorded_missing_ = 0;
  std::uint64_t recorded_peak_ = 0;
  std::vector<Asked> asked_;
};

}  // namespace

double missing_byte_us(const wire::Trace& trace, const Machine& machine, const Order& order) {
  const OrderModel model(trace);
  LiveBytes live(model);
  double missing = 0;
  for (const std::uint32_t op : order) {
    const std::uint64_t bytes = model.persistent_bytes() + live.run(op).during;
    const std::uint64_t capacity = machine.tiers[0].capacity_bytes;
    if (bytes > capacity) missing += static_cast<double>(bytes - capacity) * trace.ops[op].time_us;
  }
  return missing;
}

std::vector<Order> promising_orders(const wire::Trace& trace, const Machine& machine) {
  if (!trace.reads_known || trace.ops.size() > most_operations_to_order) return {};
  Asking asking(trace, machine);
  if (!asking.lacks()) return {};
  asking.ask(frees_early(trace));
  asking.ask(memory_minimising(trace, bounded_effort));
  asking.ask_if_lower(breadth_first(trace));
  asking.ask_if_lower(reverse_depth_first(trace));
  return asking.best();
}

}  // namespace terrace::planner::joint
