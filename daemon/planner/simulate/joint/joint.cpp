#include "daemon/planner/simulate/joint/joint.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "daemon/planner/order/scheduled.h"
#include "daemon/planner/simulate/addresses/fitting.h"
#include "daemon/planner/simulate/joint/moves.h"
#include "daemon/planner/simulate/joint/orders.h"
#include "daemon/planner/simulate/joint/remade.h"
#include "daemon/planner/simulate/joint/reordering.h"
#include "daemon/planner/simulate/policies/compressing.h"
#include "daemon/planner/variants.h"

namespace terrace::planner::joint {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
// Of a link's time for a byte: what may be spent to compute it again.
constexpr double prices[] = {0, 0.03, 0.1, 0.2, 0.4, 0.7, 1, 2, 1e9};
constexpr double most_operations = 5e6;  // simulated, all plans together
constexpr double fewest_plans = 64, most_plans = 6000, plans_per_gap = 24;
constexpr double sum_rounding = 1e-12;  // of sums of some thousand times
constexpr double first_margin = 1e-3;   // of a step's time: how much worse a plan may be that is accepted
constexpr int largest_change = 5;       // choices that change at once, as a power of two
constexpr std::size_t read_plans = 3;   // of the published ones: the best
constexpr std::size_t changed_starts = 4;
constexpr double left_to_reorder = 0.4;  // of the plans, when the order is changed
constexpr double most_reordering = 0.3;  // of the plans, so many of those
constexpr double share_to_choose = 0.5;  // of the plans, to see which of these starts leads furthest

Result<SimulationReport> timed(const wire::Trace& trace, const Machine& machine, const SwapPlan& plan,
                               bool timeline) {
  return simulate_repeated(trace, machine, plan, plan.victims, timeline);
}

// The plan, and where the step has what to compress also the plan with its moves compressed, by either rule.
std::vector<SwapPlan> with_codings(const wire::Trace& trace, const Machine& machine, SwapPlan plan) {
  std::vector<SwapPlan> all;
  if (SparseCodecs(trace, machine).any()) {
    for (const Coding coding : {Coding::always, Coding::where_it_pays})
      all.push_back(compressed(trace, machine, plan, coding));
  }
  all.insert(all.begin(), std::move(plan));
  return all;
}

struct Candidate {
  SwapPlan plan;
  double time_us = infinite;
};

struct State {
  Choices choices;
  Manner manner;
  double time_us = infinite;
};

class Search {
 public:
  Search(const wire::Trace& trace, const Machine& machine, const SwapControl& control)
      : trace_(trace),
        machine_(machine),
        control_(control),
        drafts_(trace, machine),
        moves_(drafts_, control.seed) {}

  // Which start leads furthest shows on the way: the fastest few are changed for a while, and the one that
  // has come furthest goes on. `share`: of the plans for that, the others go to other orders of operations.
  void begin(double share = 1) {
    if (!try_earlier()) try_published();
    if (perfect() || drafts_.all_stay().empty() || !can_fit()) return;
    build();
    if (!starts_.empty()) choose_start(share);
  }

  // `until`: the share of the plans that are left after that.
  void go_on(double until = 0) {
    if (starts_.empty()) return;
    if (left_ == 1 - share_to_choose) current_ = std::move(starts_.front());
    change(std::max(plans_to_try() * (left_ - until) - spent_, 0.0), left_, until);
    left_ = until;
  }

  // Begins with what a search for another order came to, and goes on where that was.
  void begin_with(const Search& other, State state) {
    spent_ = other.spent_;
    starts_.assign(1, state);
    current_ = std::move(state);
    left_ = other.left_;
    time(current_.choices, current_.manner);
  }

  bool goes_on() const { return !starts_.empty() && !perfect() && !control_.stopped(); }
  const State& current() const { return current_; }
  double all_plans() const { return plans_to_try(); }
  void spend(double plans) { spent_ = plans; }  // of those that are left, on something else

  double time_us() const { return best_.time_us; }
  // Nothing waits. The same times in another order of addition differ by rounding.
  bool perfect() const { return best_.time_us <= drafts_.starts_us().back() * (1 + sum_rounding); }

  Result<SwapPlan> best() {
    if (best_.time_us == infinite) return refused<SwapPlan>(why_not_);
    best_.plan.policy = "joint";
    return ok(std::move(best_.plan));
  }

 private:
  const wire::Trace& trace_;
  const Machine& machine_;
  const SwapControl& control_;
  Drafts drafts_;
  Moves moves_;
  std::vector<Candidate> published_;  // the fastest first
  Candidate best_;
  std::vector<State> starts_;
  State current_;
  double left_ = 1 - share_to_choose;  // of the plans, once the start is chosen
  double spent_ = 0;                   // plans of those
  std::string why_not_ = "the search was stopped before any policy had a plan";

  // False: one operation needs more than there is, whatever the plan.
  bool can_fit() const {
    return best_.time_us < infinite ||
           lower_bounds(trace_, machine_).largest_op_bytes <= machine_.tiers[0].capacity_bytes;
  }

  bool try_earlier() {
    if (control_.from == nullptr) return false;
    best_ = {*control_.from, planned_step_us(trace_, machine_, *control_.from)};
    published_.push_back(best_);
    return true;
  }

  void try_published() {
    for (const SwapPolicy& policy : published_swap_policies()) {
      if (best_.time_us < infinite && (perfect() || control_.stopped())) break;
      const bool of_others = policy.coding == Coding::always || policy.coding == Coding::where_it_pays;
      if (of_others) continue;  // they are compressed below
      SwapControl control = control_;
      control.effort = 1;
      Result<SwapPlan> plan = policy.plan(trace_, machine_, control);
      if (!plan) {
        why_not_ = std::move(plan.error);
        continue;
      }
      add(with_codings(trace_, machine_, std::move(*plan)));
    }
    std::stable_sort(published_.begin(), published_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.time_us < b.time_us; });
  }

  // The fastest of one policy's plans.
  void add(std::vector<SwapPlan> plans) {
    Candidate fastest;
    for (SwapPlan& plan : plans) {
      const auto report = timed(trace_, machine_, plan, false);
      if (!report) why_not_ = report.error;
      if (report && report->total_us < fastest.time_us) fastest = {std::move(plan), report->total_us};
    }
    if (fastest.time_us == infinite) return;
    if (fastest.time_us < best_.time_us) best_ = fastest;
    published_.push_back(std::move(fastest));
  }

  // Times the choices; they become the best plan if they are that.
  double time(const Choices& choices, const Manner& manner) {
    SwapPlan plan{drafts_.schedule(choices, manner), manner.victims};
    const auto report = timed(trace_, machine_, plan, false);
    if (!report) return infinite;
    if (report->total_us < best_.time_us) best_ = {std::move(plan), report->total_us};
    return report->total_us;
  }

  void start_from(Choices choices, const Manner& manner) {
    if (std::optional<Choices> coded = drafts_.coded_where_it_pays(choices)) begin(std::move(*coded), manner);
    if (std::optional<Choices> staged = drafts_.staged(choices)) begin(std::move(*staged), manner);
    begin(std::move(choices), manner);
  }

  // Whether it is better that what is made again stays shows in time.
  void begin(Choices choices, Manner manner) {
    manner.holds = false;
    double time_us = time(choices, manner);
    const bool again =
        std::any_of(choices.begin(), choices.end(), [](const Choice& c) { return c.way == Way::made_again; });
    manner.holds = again;
    if (const double held_us = again ? time(choices, manner) : infinite; held_us < time_us) {
      time_us = held_us;
    } else {
      manner.holds = false;
    }
    if (time_us == infinite) return;
    starts_.push_back({std::move(choices), std::move(manner), time_us});
  }

  void build() {
    for (std::size_t i = 0; i < std::min(read_plans, published_.size()); ++i) {
      const SwapPlan& plan = published_[i].plan;
      if (control_.stopped()) return;
      const auto report = timed(trace_, machine_, plan, true);
      start_from(drafts_.read(plan, *report), {plan.victims});
    }
    if (control_.from != nullptr) return;
    for (Start& start : starts_that_recompute(drafts_, control_))
      start_from(std::move(start.choices), {.tails = std::move(start.tails)});
    double us_per_byte = 1;
    if (drafts_.far().any()) {
      constexpr std::uint64_t sample = std::uint64_t{1} << 30;
      us_per_byte = drafts_.far().transfer_us(drafts_.far().tiers().front(), sample, true) / sample;
    }
    for (const double price : prices) {
      if (control_.stopped()) return;
      for (const bool encoding : {false, true}) {
        if (encoding && drafts_.inside() == 0) continue;
        Choices choices = drafts_.construct(price * us_per_byte, encoding);
        start_from(choices, {});
        if (encoding) continue;  // a revision would move what rests encoded
        if (auto revised = drafts_.revised(std::move(choices), price * us_per_byte))
          start_from(std::move(*revised), {});
      }
    }
  }

  double plans_to_try() const {
    const auto ops = static_cast<double>(trace_.ops.size());
    const double by_gaps = plans_per_gap * static_cast<double>(current_.choices.size());
    return control_.effort * std::clamp(std::min(most_operations / ops, by_gaps), fewest_plans, most_plans);
  }

  void choose_start(double share) {
    keep_fastest(changed_starts);
    current_ = starts_.front();
    const double each = plans_to_try() * share * share_to_choose / static_cast<double>(starts_.size());
    for (State& start : starts_) {
      current_ = std::move(start);
      change(each, 1, 1 - share_to_choose);
      start = std::move(current_);
    }
    keep_fastest(1);
  }

  void keep_fastest(std::size_t count) {
    std::stable_sort(starts_.begin(), starts_.end(),
                     [](const State& a, const State& b) { return a.time_us < b.time_us; });
    const auto same = [](const State& a, const State& b) { return a.time_us == b.time_us; };
    starts_.erase(std::unique(starts_.begin(), starts_.end(), same), starts_.end());
    starts_.resize(std::min(starts_.size(), count));
  }

  // So many plans; what worsens them is accepted within a margin that falls as `left` does.
  void change(double plans, double left_first, double left_last) {
    bool going = look();
    for (double tried = 0; tried < plans && going && !perfect() && !control_.stopped(); ++tried) {
      const double left = left_first + (left_last - left_first) * tried / plans;
      Choices changed = current_.choices;
      const auto powers = static_cast<std::uint32_t>(left * largest_change) + 1;
      moves_.change(1U << (tried_ % powers), &changed);
      ++tried_;
      const double time_us = time(changed, current_.manner);
      if (time_us >= current_.time_us * (1 + first_margin * left * left)) continue;
      current_ = {std::move(changed), current_.manner, time_us};
      going = look();
    }
  }

  std::uint32_t tried_ = 0;

  Result<SimulationReport> looked_at_;  // by the moves, which keep no copy

  bool look() {
    looked_at_ = timed(trace_, machine_,
                       {drafts_.schedule(current_.choices, current_.manner), current_.manner.victims}, true);
    if (looked_at_) moves_.look(*looked_at_);
    return bool(looked_at_);
  }
};

// One order of the operations, and the search for it.
struct InOrder {
  Order operations;                    // empty: as recorded
  std::unique_ptr<wire::Trace> trace;  // in that order; null: the one given
  std::unique_ptr<Search> search;
};

// A part of the plans changes the order itself, between two parts that change what moves in it.
void change_order(const wire::Trace& trace, const Machine& machine, const SwapControl& control,
                  InOrder* best) {
  best->search->go_on(left_to_reorder);
  if (!best->search->goes_on()) return;
  Order operations = best->operations;
  if (operations.empty()) {
    operations.resize(trace.ops.size());
    std::iota(operations.begin(), operations.end(), 0U);
  }
  const State& state = best->search->current();
  Reordering reordering(trace, machine, control);
  std::optional<OrderedPlan> changed = reordering.improved(operations, state.choices, state.manner,
                                                           best->search->all_plans() * most_reordering);
  best->search->spend(reordering.tried());
  if (!changed) return;
  auto search = std::make_unique<Search>(*changed->trace, machine, control);
  search->begin_with(*best->search, {std::move(changed->choices), changed->manner, changed->time_us});
  if (search->time_us() >= best->search->time_us()) return;
  best->search = std::move(search);  // before the trace that the old one refers to
  best->trace = std::move(changed->trace);
  best->operations = std::move(changed->operations);
}

// The order that leads furthest is searched to the end. With the recorded one alone this is one search.
Result<SwapPlan> search_orders(const wire::Trace& trace, const Machine& machine, const SwapControl& control,
                               const std::vector<Order>& others) {
  std::vector<InOrder> all;
  all.reserve(1 + others.size());
  all.push_back({{}, nullptr, std::make_unique<Search>(trace, machine, control)});
  const double share = 1 / (1 + static_cast<double>(others.size()));
  all.front().search->begin(share);
  for (const Order& operations : others) {
    if (all.front().search->perfect() || control.stopped()) break;
    InOrder& other = all.emplace_back(
        InOrder{operations, std::make_unique<wire::Trace>(reorder(trace, operations)), nullptr});
    other.search = std::make_unique<Search>(*other.trace, machine, control);
    other.search->begin(share);
  }
  const auto sooner = [](const InOrder& a, const InOrder& b) {
    return a.search->time_us() < b.search->time_us();
  };
  InOrder& best = *std::min_element(all.begin(), all.end(), sooner);
  if (all.size() > 1) change_order(trace, machine, control, &best);
  best.search->go_on();
  Result<SwapPlan> plan = best.search->best();
  if (plan) plan->operations = best.operations;
  return plan;
}

// Where the step has what to compress, the search runs without codecs, too: they never make a plan slower.
Result<SwapPlan> search(const wire::Trace& trace, const Machine& machine, const SwapControl& control) {
  std::vector<Order> orders;
  if (!control.keeps_order) orders = promising_orders(trace, machine);
  Result<SwapPlan> plan = search_orders(trace, machine, control, orders);
  const bool encodes = SparseCodecs(trace, machine).any() || BitRests(trace, machine).any();
  if (!encodes || control.stopped()) return plan;
  Machine plain = machine;
  plain.codecs.clear();
  Result<SwapPlan> without = search_orders(trace, plain, control, orders);
  if (!without) return plan;
  const bool faster =
      !plan || planned_step_us(trace, machine, *without) < planned_step_us(trace, machine, *plan);
  return faster ? std::move(without) : std::move(plan);
}

// The fastest plan that policies for variants have; infinite: they have none.
Candidate fastest_with_variants(const wire::Trace& trace, const Machine& machine,
                                const SwapControl& control) {
  Candidate fastest;
  for (const SwapPolicy& policy : published_swap_policies()) {
    if (!policy.chooses_variants) continue;
    Result<SwapPlan> plan = policy.plan(trace, machine, control);
    if (!plan) continue;
    for (SwapPlan& made : with_codings(trace, machine, std::move(*plan))) {
      const double time_us = planned_step_us(trace, machine, made);
      if (time_us < fastest.time_us) fastest = {std::move(made), time_us};
    }
  }
  return fastest;
}

// The search does not change variants: it runs with every operation as it is, with each one's fastest
// variant, and with those of the fastest plan that chooses some.
Result<SwapPlan> plan_with_variants(const wire::Trace& trace, const Machine& machine,
                                    const SwapControl& control) {
  Candidate best = fastest_with_variants(trace, machine, control);
  std::vector<std::uint32_t> fastest;
  for (const wire::TraceOp& op : trace.ops) fastest.push_back(fastest_within(op, unlimited_bytes));
  std::vector<std::vector<wire::VariantChoice>> choices = {{}, choices_of(fastest)};
  if (best.time_us < infinite) choices.push_back(best.plan.variants);
  SwapControl each = control;
  each.effort = control.effort / static_cast<double>(choices.size());
  std::string why_not;
  for (const std::vector<wire::VariantChoice>& chosen : choices) {
    Result<SwapPlan> plan = search(with_variants(trace, chosen), machine, each);
    if (!plan) why_not = plan.error;
    if (!plan) continue;
    plan->variants = chosen;
    const double time_us = planned_step_us(trace, machine, *plan);
    if (time_us < best.time_us) best = {std::move(*plan), time_us};
  }
  if (best.time_us == infinite) return refused<SwapPlan>(std::move(why_not));
  best.plan.policy = "joint";
  return ok(std::move(best.plan));
}

// With the variants and the order that the earlier plan chose. Nothing where that plan can no longer be
// carried out.
std::optional<SwapPlan> changed(const wire::Trace& trace, const Machine& machine,
                                const SwapControl& control) {
  if (planned_step_us(trace, machine, *control.from) == infinite) return std::nullopt;
  SwapPlan earlier = *control.from;
  const std::vector<wire::VariantChoice> variants = std::exchange(earlier.variants, {});
  const Order operations = std::exchange(earlier.operations, {});
  if (control.keeps_order && !operations.empty()) return std::nullopt;
  SwapControl from_there = control;
  from_there.from = &earlier;
  const wire::Trace as_run = in_order(with_variants(trace, variants), operations);
  Search search(as_run, machine, from_there);
  search.begin();
  search.go_on();
  Result<SwapPlan> plan = search.best();
  if (!plan) return std::nullopt;
  plan->variants = variants;
  plan->operations = operations;
  return std::move(*plan);
}

Result<SwapPlan> plan_by_bytes(const wire::Trace& trace, const Machine& machine, const SwapControl& given) {
  if (given.from != nullptr) {
    if (std::optional<SwapPlan> plan = changed(trace, machine, given)) return ok(std::move(*plan));
  }
  SwapControl control = given;
  control.from = nullptr;
  return has_variants(trace) ? plan_with_variants(trace, machine, control) : search(trace, machine, control);
}

}  // namespace

double planned_step_us(const wire::Trace& trace, const Machine& machine, const SwapPlan& plan) {
  const auto report = timed(trace, machine, plan, false);
  return report ? report->total_us : infinite;
}

Result<SwapPlan> plan_jointly(const wire::Trace& trace, const Machine& machine, const SwapControl& control) {
  return plan_with_addresses(trace, machine, control, plan_by_bytes);
}

}  // namespace terrace::planner::joint
