// Exact reordering of a window of consecutive operations.
//
// The operations before the window have run, those after it have not, so what is alive inside depends only on
// which of the window's operations have run: 2^k sets, each with the best way to get there (Held and Karp's
// scheme). The best order has the smallest peak, then the smallest sum. A window is worth a look only if it
// holds the peak of the whole order.
#include <algorithm>
#include <bit>
#include <limits>

#include "daemon/planner/order/search.h"

namespace terrace::planner {
namespace {

constexpr std::uint32_t most_window_ops = 16;

struct WindowCost {
  std::uint64_t peak = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t sum = 0;
  bool operator==(const WindowCost&) const = default;
  bool operator<(const WindowCost& other) const {
    return peak != other.peak ? peak < other.peak : sum < other.sum;
  }
};

// A tensor that the window names.
struct Local {
  std::uint64_t bytes = 0;
  std::uint32_t users = 0;  // operations of the window, as bits
  bool alive = false;       // before the window
  bool ends = false;        // nothing after the window names it
};

struct LocalOp {
  std::vector<std::uint32_t> tensors;  // indices into the locals
  std::uint32_t before = 0;            // operations of the window that it waits for
  std::uint64_t workspace = 0;
};

class OpWindow {
 public:
  OpWindow(const OrderModel& model, const Dependencies& graph, const LiveBytes& live,
           std::span<const std::uint32_t> ops)
      : start_live_(live.live()), ops_(ops.size()) {
    std::vector<std::uint32_t> names;
    for (std::uint32_t i = 0; i < ops.size(); ++i) add_op(model, graph, ops, i, names);
    for (std::size_t n = 0; n < names.size(); ++n) {
      Local& local = locals_[n];
      local.bytes = model.bytes(names[n]);
      local.alive = live.left(names[n]) < model.uses(names[n]);
      local.ends = live.left(names[n]) == static_cast<std::uint32_t>(std::popcount(local.users));
    }
  }

  // The cost of running the window as it stands.
  WindowCost recorded() const {
    WindowCost cost{0, 0};
    std::uint64_t live = start_live_;
    for (std::uint32_t i = 0, ran = 0; i < ops_.size(); ran |= 1U << i++) extend(cost, live, ran, i);
    return cost;
  }

  // The best order, as positions in the window.
  std::vector<std::uint32_t> solve(WindowCost& best) {
    const std::uint32_t all = (1U << ops_.size()) - 1;
    cost_.assign(all + 1, {});
    live_.assign(all + 1, 0);
    last_.assign(all + 1, 0);
    cost_[0] = {0, 0};
    live_[0] = start_live_;
    for (std::uint32_t ran = 0; ran < all; ++ran) {
      if (cost_[ran] == WindowCost{}) continue;  // cannot be reached
      for (std::uint32_t i = 0; i < ops_.size(); ++i) relax(ran, i);
    }
    best = cost_[all];
    std::vector<std::uint32_t> order;
    for (std::uint32_t ran = all; ran != 0; ran &= ~(1U << last_[ran])) order.push_back(last_[ran]);
    std::reverse(order.begin(), order.end());
    return order;
  }

 private:
  void add_op(const OrderModel& model, const Dependencies& graph, std::span<const std::uint32_t> ops,
              std::uint32_t i, std::vector<std::uint32_t>& names) {
    ops_[i].workspace = model.workspace(ops[i]);
    for (std::uint32_t j = 0; j < i; ++j) {
      const auto& before = graph.before[ops[i]];
      if (std::binary_search(before.begin(), before.end(), ops[j])) ops_[i].before |= 1U << j;
    }
    for (const std::uint32_t t : model.names(ops[i])) {
      const auto at = static_cast<std::uint32_t>(std::find(names.begin(), names.end(), t) - names.begin());
      if (at == names.size()) {
        names.push_back(t);
        locals_.emplace_back();
      }
      locals_[at].users |= 1U << i;
      ops_[i].tensors.push_back(at);
    }
  }

  void extend(WindowCost& cost, std::uint64_t& live, std::uint32_t ran, std::uint32_t i) const {
    const std::uint32_t now = ran | 1U << i;
    std::uint64_t during = live + ops_[i].workspace;
    std::uint64_t ended = ops_[i].workspace;
    for (const std::uint32_t t : ops_[i].tensors) {
      const Local& local = locals_[t];
      if (!local.alive && (local.users & ran) == 0) during += local.bytes;
      if (local.ends && (local.users & ~now) == 0) ended += local.bytes;
    }
    cost = {std::max(cost.peak, during), cost.sum + during};
    live = during - ended;
  }

  void relax(std::uint32_t ran, std::uint32_t i) {
    if ((ran >> i & 1) != 0 || (ops_[i].before & ~ran) != 0) return;
    WindowCost cost = cost_[ran];
    std::uint64_t live = live_[ran];
    extend(cost, live, ran, i);
    const std::uint32_t now = ran | 1U << i;
    if (!(cost < cost_[now])) return;
    cost_[now] = cost;
    live_[now] = live;
    last_[now] = i;
  }

  std::uint64_t start_live_;
  std::vector<Local> locals_;
  std::vector<LocalOp> ops_;
  std::vector<WindowCost> cost_;
  std::vector<std::uint64_t> live_;
  std::vector<std::uint32_t> last_;
};

// The first position at which the most is alive.
std::uint32_t peak_position(const OrderModel& model, const Order& order) {
  LiveBytes live(model);
  std::uint64_t peak = 0;
  std::uint32_t at = 0;
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    const std::uint64_t during = live.run(order[i]).during;
    if (during > peak || i == 0) {
      peak = during;
      at = i;
    }
  }
  return at;
}

// Reorders the window at `begin` if that makes it cheaper.
bool improve(const OrderModel& model, const Dependencies& graph, Order& order, std::uint32_t begin,
             std::uint32_t count) {
  LiveBytes live(model);
  for (std::uint32_t i = 0; i < begin; ++i) live.run(order[i]);
  const Order ops(order.begin() + begin, order.begin() + begin + count);
  OpWindow window(model, graph, live, ops);
  WindowCost best;
  const std::vector<std::uint32_t> positions = window.solve(best);
  if (!(best < window.recorded())) return false;
  for (std::uint32_t i = 0; i < count; ++i) order[begin + i] = ops[positions[i]];
  return true;
}

}  // namespace

Order polished(const OrderModel& model, const Dependencies& graph, Order order, std::uint32_t window_ops,
               std::uint32_t rounds) {
  const auto ops = static_cast<std::uint32_t>(order.size());
  const std::uint32_t count = std::min({window_ops, most_window_ops, ops});
  if (count < 2) return order;
  const std::uint32_t stride = std::max(count / 4, 1U);
  for (bool better = true; better && rounds > 0;) {
    better = false;
    const std::uint32_t peak = peak_position(model, order);
    const std::uint32_t first = peak - std::min(peak, count - 1);
    for (std::uint32_t begin = first; !better && begin <= peak && rounds > 0; begin += stride, --rounds)
      better = improve(model, graph, order, std::min(begin, ops - count), count);
  }
  return order;
}

}  // namespace terrace::planner
