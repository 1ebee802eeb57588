// Orders built in one pass: the greedy list schedule and the sunk order.
#include <algorithm>
#include <set>
#include <tuple>

#include "daemon/planner/order/search.h"

namespace terrace::planner {
namespace {

// Who names a tensor, so that what an operation would leave behind is computed again when that changes.
std::vector<std::vector<std::uint32_t>> users_of(const OrderModel& model) {
  std::vector<std::vector<std::uint32_t>> users(model.tensors());
  for (std::uint32_t op = 0; op < model.ops(); ++op) {
    for (const std::uint32_t t : model.names(op)) users[t].push_back(op);
  }
  return users;
}

class ListSchedule {
 public:
  ListSchedule(const OrderModel& model, const Dependencies& graph)
      : model_(model),
        graph_(graph),
        users_(users_of(model)),
        live_(model),
        waits_(model.ops()),
        keys_(model.ops()),
        ready_(model.ops(), false) {
    for (std::uint32_t op = 0; op < model.ops(); ++op) waits_[op] = graph.before[op].size();
  }

  Order run() {
    for (std::uint32_t op = 0; op < model_.ops(); ++op) {
      if (waits_[op] == 0) enqueue(op);
    }
    Order order;
    order.reserve(model_.ops());
    while (!queue_.empty()) {
      const std::uint32_t op = std::get<2>(*queue_.begin());
      queue_.erase(queue_.begin());
      ready_[op] = false;
      order.push_back(op);
      finish(op);
    }
    return order;
  }

 private:
  // What it leaves behind and needs beyond what is alive anyway; signed, for it may free more than it makes.
  using Key = std::tuple<std::int64_t, std::int64_t, std::uint32_t>;

  Key key_of(std::uint32_t op) const {
    const LiveBytes::Step step = live_.ask(op);
    return {static_cast<std::int64_t>(step.after - live_.live()),
            static_cast<std::int64_t>(step.during - live_.live()), op};
  }

  void enqueue(std::uint32_t op) {
    keys_[op] = key_of(op);
    ready_[op] = true;
    queue_.insert(keys_[op]);
  }

  // Only the first and the second to last use of a tensor change what others would leave behind.
  void refresh(std::uint32_t tensor) {
    const std::uint32_t left = live_.left(tensor);
    if (left != 1 && left + 1 != model_.uses(tensor)) return;
    for (const std::uint32_t op : users_[tensor]) {
      if (!ready_[op]) continue;
      queue_.erase(keys_[op]);
      enqueue(op);
    }
  }

  void finish(std::uint32_t op) {
    live_.run(op);
    for (const std::uint32_t t : model_.names(op)) refresh(t);
    for (const std::uint32_t next : graph_.after[op]) {
      if (--waits_[next] == 0) enqueue(next);
    }
  }

  const OrderModel& model_;
  const Dependencies& graph_;
  std::vector<std::vector<std::uint32_t>> users_;
  LiveBytes live_;
  std::vector<std::size_t> waits_;
  std::vector<Key> keys_;
  std::vector<bool> ready_;
  std::set<Key> queue_;
};

}  // namespace

std::uint64_t peak_of(const OrderModel& model, const Order& order) {
  LiveBytes live(model);
  std::uint64_t peak = 0;
  for (const std::uint32_t op : order) peak = std::max(peak, live.run(op).during);
  return peak;
}

Order greedy_order(const OrderModel& model, const Dependencies& graph) {
  return ListSchedule(model, graph).run();
}

Dependencies reversed(const Dependencies& graph) { return {graph.after, graph.before}; }

namespace {

class EarlyFrees {
 public:
  EarlyFrees(const OrderModel& model, const Dependencies& graph)
      : model_(model),
        graph_(graph),
        users_(users_of(model)),
        live_(model),
        waits_(model.ops()),
        ran_(model.ops(), false) {
    for (std::uint32_t op = 0; op < model.ops(); ++op) waits_[op] = graph.before[op].size();
  }

  // In recorded order everything is ready when its turn comes.
  Order run() {
    order_.reserve(model_.ops());
    for (std::uint32_t op = 0; op < model_.ops(); ++op) {
      if (!ran_[op]) finish(op);
      while (!frees_.empty()) {
        const std::uint32_t first = *frees_.begin();
        frees_.erase(frees_.begin());
        finish(first);
      }
    }
    return std::move(order_);
  }

 private:
  void consider(std::uint32_t op) {
    const bool ready = !ran_[op] && waits_[op] == 0;
    if (ready && live_.ask(op).after < live_.live()) frees_.insert(op);
  }

  // It ends the lives of tensors that nobody else has yet to name; whoever is the last one left now may, too.
  void finish(std::uint32_t op) {
    ran_[op] = true;
    frees_.erase(op);
    order_.push_back(op);
    live_.run(op);
    for (const std::uint32_t next : graph_.after[op]) {
      if (--waits_[next] == 0) consider(next);
    }
    for (const std::uint32_t t : model_.names(op)) {
      if (live_.left(t) != 1) continue;
      for (const std::uint32_t user : users_[t]) consider(user);
    }
  }

  const OrderModel& model_;
  const Dependencies& graph_;
  std::vector<std::vector<std::uint32_t>> users_;
  LiveBytes live_;
  std::vector<std::size_t> waits_;
  std::vector<bool> ran_;
  std::set<std::uint32_t> frees_;
  Order order_;
};

}  // namespace

Order frees_early(const wire::Trace& trace) {
  const OrderModel model(trace);
  const Dependencies graph = dependencies_of(trace);
  return EarlyFrees(model, graph).run();
}

namespace {

// Appends what has not been placed of `op` and its ancestors, in the order of `position`.
void place_with_ancestors(const Dependencies& graph, const Order& position, std::uint32_t op,
                          std::vector<bool>& placed, Order& result) {
  if (placed[op]) return;
  Order missing{op};
  placed[op] = true;
  for (std::size_t i = 0; i < missing.size(); ++i) {
    for (const std::uint32_t first : graph.before[missing[i]]) {
      if (placed[first]) continue;
      placed[first] = true;
      missing.push_back(first);
    }
  }
  std::sort(missing.begin(), missing.end(), [&](auto a, auto b) { return position[a] < position[b]; });
  result.insert(result.end(), missing.begin(), missing.end());
}

}  // namespace

Order sunk(const OrderModel& model, const Dependencies& graph, const Order& order) {
  std::vector<bool> grows(order.size());
  Order position(order.size());
  LiveBytes live(model);
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    const std::uint64_t before = live.live();
    grows[order[i]] = live.run(order[i]).after > before;
    position[order[i]] = i;
  }
  Order result;
  result.reserve(order.size());
  std::vector<bool> placed(order.size(), false);
  for (const std::uint32_t op : order) {
    if (!grows[op]) place_with_ancestors(graph, position, op, placed, result);
  }
  for (const std::uint32_t op : order) place_with_ancestors(graph, position, op, placed, result);
  return result;
}

}  // namespace terrace::planner
