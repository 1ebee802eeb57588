#include "daemon/planner/simulate/joint/reordering.h"

#include <algorithm>
#include <utility>

#include "daemon/planner/order/scheduled.h"

namespace terrace::planner::joint {
namespace {

constexpr std::uint64_t blind_one_in = 4;
constexpr std::uint32_t looked_ahead = 600;  // positions behind a wait from which operations go ahead
constexpr int tries_to_go_ahead = 24;
constexpr std::uint32_t most_way_given = 12;     // positions
constexpr std::uint32_t largest_reordering = 4;  // operations that move at once, as a power of two
constexpr double reordering_margin = 2e-5;       // of a step's time: how much worse a changed order may be

}  // namespace

Choices carried_over(const Choices& choices, const Order& order, const Drafts& other_drafts,
                     const Order& other_order) {
  const std::vector<std::uint32_t> other_position = positions_of(other_order);
  const auto ops = static_cast<std::uint32_t>(order.size());
  const auto now = [&](std::uint32_t position) {
    return position >= ops ? ops : other_position[order[position]];
  };
  Choices carried = other_drafts.all_stay();
  auto first = choices.begin();
  for (std::size_t g = 0; g < carried.size(); ++g) {
    Choice& c = carried[g];
    while (first != choices.end() && first->gap.tensor < c.gap.tensor) ++first;
    auto same = first;
    while (same != choices.end() && same->gap.tensor == c.gap.tensor && now(same->gap.to) != c.gap.to) ++same;
    if (same == choices.end() || same->gap.tensor != c.gap.tensor || same->gap.wraps != c.gap.wraps) continue;
    const std::uint32_t in = same->in == same->gap.to ? c.gap.to : now(same->in);
    if (same->way == Way::made_again && other_drafts.can_be_made_again(g)) other_drafts.make_again(&c, in);
    if (same->way != Way::moves) continue;
    const std::uint32_t soonest = c.gap.from + 1;
    c.way = Way::moves;
    c.tier = same->tier;
    c.codec = same->codec;
    // What reads values may come later in the other order.
    if (other_drafts.machine().keeps_one_bit(c.codec) && other_drafts.codec_inside(c) != c.codec)
      c.way = Way::stays;
    c.out = same->out == same->gap.from + 1 ? soonest : now(same->out);
    c.out = std::clamp(c.out, soonest, c.gap.wraps ? ops : c.gap.to);
    c.in = std::clamp(in, c.gap.wraps ? 0 : c.out, c.gap.to);
    c.through = same->through;
    c.back = std::min(now(same->back), c.in);
  }
  return carried;
}

Reordering::Reordering(const wire::Trace& trace, const Machine& machine, const SwapControl& control)
    : trace_(trace),
      machine_(machine),
      control_(control),
      graph_(dependencies_of(trace)),
      random_(control.seed) {}

std::optional<OrderedPlan> Reordering::timed(Order operations, const Choices& choices, const Order& of,
                                             const Manner& manner) const {
  OrderedPlan plan;
  plan.operations = std::move(operations);
  plan.trace = std::make_unique<wire::Trace>(reorder(trace_, plan.operations));
  plan.drafts = std::make_unique<Drafts>(*plan.trace, machine_);
  plan.choices = carried_over(choices, of, *plan.drafts, plan.operations);
  plan.manner = manner;
  const std::vector<std::uint32_t> position = positions_of(plan.operations);
  for (Tail& t : plan.manner.tails) t.until = position[of[t.until]];
  const auto report = simulate_repeated(*plan.trace, machine_,
                                        plan.drafts->schedule(plan.choices, plan.manner), manner.victims);
  if (!report) return std::nullopt;
  plan.time_us = report->total_us;
  return plan;
}

std::optional<OrderedPlan> Reordering::improved(const Order& operations, const Choices& choices,
                                                const Manner& manner, double plans) {
  std::optional<OrderedPlan> current = timed(operations, choices, operations, manner);
  if (!current || !look(*current)) return std::nullopt;
  double best_us = current->time_us;
  Order best_order;
  Choices best_choices;
  Manner best_manner;
  for (double tried = 0; tried < plans && !waits_.empty() && !control_.stopped(); ++tried) {
    Order changed = current->operations;
    bool any = false;
    for (std::uint64_t left = 1ULL << below(largest_reordering); left > 0; --left) any |= change(&changed);
    position_ = positions_of(current->operations);
    if (!any) continue;
    ++tried_;
    std::optional<OrderedPlan> plan =
        timed(std::move(changed), current->choices, current->operations, current->manner);
    if (!plan || plan->time_us >= current->time_us * (1 + reordering_margin * (1 - tried / plans))) continue;
    current = std::move(plan);
    if (!look(*current)) break;
    if (current->time_us >= best_us) continue;
    best_us = current->time_us;
    best_order = current->operations;
    best_choices = current->choices;
    best_manner = current->manner;
  }
  if (best_order.empty()) return std::nullopt;
  return timed(best_order, best_choices, best_order, best_manner);
}

bool Reordering::look(const OrderedPlan& plan) {
  position_ = positions_of(plan.operations);
  waits_.clear();
  const auto report = simulate_repeated(
      *plan.trace, machine_, plan.drafts->schedule(plan.choices, plan.manner), plan.manner.victims, true);
  if (!report) return false;
  double sum_us = 0;
  for (std::uint32_t p = 0; p < report->ops.size(); ++p) {
    const double waited_us = report->ops[p].stalls.total_us();
    if (waited_us > 0) waits_.push_back({p, sum_us += waited_us});
  }
  return true;
}

std::uint32_t Reordering::drawn_wait() {
  const double drawn_us = static_cast<double>(random_() >> 11) * 0x1p-53 * waits_.back().sum_us;
  const auto found = std::upper_bound(waits_.begin(), waits_.end(), drawn_us,
                                      [](double us, const Wait& w) { return us < w.sum_us; });
  return found == waits_.end() ? waits_.back().position : found->position;
}

bool Reordering::change(Order* order) {
  if (below(blind_one_in) == 0) return anywhere(order);
  const std::uint32_t position = drawn_wait();
  return below(2) == 0 ? give_way(order, position) || go_ahead(order, position) : go_ahead(order, position);
}

std::uint32_t Reordering::earliest(std::uint32_t op) const {
  std::uint32_t first = 0;
  for (const std::uint32_t before : graph_.before[op]) first = std::max(first, position_[before] + 1);
  return first;
}

std::uint32_t Reordering::latest(std::uint32_t op) const {
  auto last = static_cast<std::uint32_t>(position_.size()) - 1;
  for (const std::uint32_t after : graph_.after[op]) last = std::min(last, position_[after] - 1);
  return last;
}

void Reordering::shift(Order* order, std::uint32_t from, std::uint32_t to) {
  const auto begin = order->begin();
  if (from < to)
    std::rotate(begin + from, begin + from + 1, begin + to + 1);
  else
    std::rotate(begin + to, begin + from, begin + from + 1);
  for (std::uint32_t p = std::min(from, to); p <= std::max(from, to); ++p) position_[(*order)[p]] = p;
}

bool Reordering::go_ahead(Order* order, std::uint32_t position) {
  const auto behind = static_cast<std::uint32_t>(order->size()) - 1 - position;
  if (behind == 0) return false;
  for (int i = 0; i < tries_to_go_ahead; ++i) {
    const auto from = position + 1 + static_cast<std::uint32_t>(below(std::min(behind, looked_ahead)));
    if (earliest((*order)[from]) > position) continue;
    shift(order, from, position);
    return true;
  }
  return false;
}

bool Reordering::give_way(Order* order, std::uint32_t position) {
  const std::uint32_t last = latest((*order)[position]);
  if (last == position) return false;
  shift(order, position,
        position + 1 + static_cast<std::uint32_t>(below(std::min(last - position, most_way_given))));
  return true;
}

bool Reordering::anywhere(Order* order) {
  const auto position = static_cast<std::uint32_t>(below(order->size()));
  const std::uint32_t first = earliest((*order)[position]), last = latest((*order)[position]);
  if (first == last) return false;
  shift(order, position, first + static_cast<std::uint32_t>(below(last - first + 1)));
  return true;
}

}  // namespace terrace::planner::joint
