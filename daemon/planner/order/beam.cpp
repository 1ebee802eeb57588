// Beam search over partial orders.
//
// All states of one step have run equally many operations. What a state can still reach depends only on the
// set it has run, so of two with the same set the one with the smaller peak is kept: they are told apart by
// the sum of one random number per operation (Zobrist), whose collisions can only cost quality.
#include <algorithm>
#include <random>
#include <tuple>
#include <unordered_set>

#include "daemon/planner/order/search.h"

namespace terrace::planner {
namespace {

constexpr std::uint32_t no_link = 0xffffffffU;

struct PartialOrder {
  LiveBytes live;
  std::vector<std::uint32_t> waits;  // per operation: dependencies that have not run
  std::vector<std::uint32_t> ready;
  std::uint64_t peak = 0;
  std::uint64_t set = 0;  // sum over what has run
  std::uint32_t link = no_link;
};

struct ChosenOp {
  std::uint32_t op;
  std::uint32_t previous;
};

struct Extension {
  std::uint64_t peak;
  std::uint64_t after;
  std::uint32_t state;
  std::uint32_t op;
  std::uint64_t set;

  bool operator<(const Extension& other) const {
    return std::tie(peak, after, state, op) < std::tie(other.peak, other.after, other.state, other.op);
  }
};

class OrderBeam {
 public:
  OrderBeam(const OrderModel& model, const Dependencies& graph, std::uint32_t width)
      : graph_(graph), width_(width), numbers_(model.ops()) {
    std::mt19937_64 random(1);
    for (std::uint64_t& number : numbers_) number = random();
    PartialOrder first{LiveBytes(model), {}, {}};
    for (std::uint32_t op = 0; op < model.ops(); ++op) {
      first.waits.push_back(static_cast<std::uint32_t>(graph.before[op].size()));
      if (graph.before[op].empty()) first.ready.push_back(op);
    }
    states_.push_back(std::move(first));
  }

  Order run() {
    for (std::size_t step = 0; step < numbers_.size(); ++step) advance();
    Order order;
    for (std::uint32_t link = states_.front().link; link != no_link; link = links_[link].previous)
      order.push_back(links_[link].op);
    std::reverse(order.begin(), order.end());
    return order;
  }

 private:
  std::vector<Extension> extensions() const {
    std::vector<Extension> all;
    for (std::uint32_t s = 0; s < states_.size(); ++s) {
      const PartialOrder& state = states_[s];
      for (const std::uint32_t op : state.ready) {
        const LiveBytes::Step step = state.live.ask(op);
        all.push_back({std::max(state.peak, step.during), step.after, s, op, state.set + numbers_[op]});
      }
    }
    std::sort(all.begin(), all.end());
    return all;
  }

  PartialOrder extended(const Extension& choice) {
    PartialOrder state = states_[choice.state];
    state.live.run(choice.op);
    state.peak = choice.peak;
    state.set = choice.set;
    state.ready.erase(std::find(state.ready.begin(), state.ready.end(), choice.op));
    for (const std::uint32_t next : graph_.after[choice.op]) {
      if (--state.waits[next] == 0) state.ready.push_back(next);
    }
    links_.push_back({choice.op, state.link});
    state.link = static_cast<std::uint32_t>(links_.size() - 1);
    return state;
  }

  void advance() {
    std::vector<PartialOrder> next;
    std::unordered_set<std::uint64_t> seen;
    for (const Extension& choice : extensions()) {
      if (next.size() == width_) break;
      if (seen.insert(choice.set).second) next.push_back(extended(choice));
    }
    states_ = std::move(next);
  }

  const Dependencies& graph_;
  std::uint32_t width_;
  std::vector<std::uint64_t> numbers_;
  std::vector<PartialOrder> states_;
  std::vector<ChosenOp> links_;
};

}  // namespace

Order beam_order(const OrderModel& model, const Dependencies& graph, std::uint32_t width) {
  return OrderBeam(model, graph, width).run();
}

}  // namespace terrace::planner
