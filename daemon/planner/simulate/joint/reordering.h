// Changes to the order of operations, with a plan that goes along.
//
// An operation that waits for a transfer or for room gives way to others behind it, or one from behind, of
// which everything that it depends on has run, goes ahead of it:
//
//     transfer   aaaaaaaa
//     before     1111----2222233333    2 waits for a; 3 does not depend on 2
//     after      111133333222222       3 runs while a arrives
//
// Every change is timed by the simulator. A plan is the choices for the gaps between uses (drafts.h); a gap
// ends with the same operation in any order, by which it keeps its choice.
#pragma once

#include <memory>
#include <optional>
#include <random>

#include "daemon/planner/order/dependencies.h"
#include "daemon/planner/order/order.h"
#include "daemon/planner/simulate/joint/drafts.h"

namespace terrace::planner::joint {

// The same choices for the gaps of the step in another order. Orders are of one trace's operations; what no
// longer makes sense stays.
Choices carried_over(const Choices& choices, const Order& order, const Drafts& other_drafts,
                     const Order& other_order);

// A plan of a step in some order, whose parts refer to each other.
struct OrderedPlan {
  Order operations;
  std::unique_ptr<wire::Trace> trace;  // in that order
  std::unique_ptr<Drafts> drafts;
  Choices choices;
  Manner manner;
  double time_us = 0;
};

class Reordering {
 public:
  // The trace as recorded, without variants. All must outlive it.
  Reordering(const wire::Trace& trace, const Machine& machine, const SwapControl& control);

  // Tries so many changes of the order, and answers the fastest plan on the way; nothing where none is faster
  // than the one given.
  std::optional<OrderedPlan> improved(const Order& operations, const Choices& choices, const Manner& manner,
                                      double plans);
  double tried() const { return tried_; }  // plans, by all calls

 private:
  const wire::Trace& trace_;
  const Machine& machine_;
  const SwapControl& control_;
  Dependencies graph_;
  std::mt19937_64 random_;
  double tried_ = 0;
  std::vector<std::uint32_t> position_;  // of each operation, in the order that is being changed
  struct Wait {
    std::uint32_t position = 0;
    double sum_us = 0;  // of all waits up to this one
  };
  std::vector<Wait> waits_;  // of the plan that is being changed

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  std::optional<OrderedPlan> timed(Order operations, const Choices& choices, const Order& of,
                                   const Manner& manner) const;
  bool look(const OrderedPlan& plan);
  bool change(Order* order);
  std::uint32_t drawn_wait();
  std::uint32_t earliest(std::uint32_t op) const;
  std::uint32_t latest(std::uint32_t op) const;
  void shift(Order* order, std::uint32_t from, std::uint32_t to);
  bool go_ahead(Order* order, std::uint32_t position);
  bool give_way(Order* order, std::uint32_t position);
  bool anywhere(Order* order);
};

}  // namespace terrace::planner::joint
