// Ours: a local search over stays in the fast memory.
//
// It starts from the best of all published plans (policies.h), so it is never slower than any of them, and
// changes one stay at a time. Changes are aimed at operations that lose time, in proportion to what they
// lose:
//
//     something that such an operation names and finds in the slow memory gets a stay around that use: the
//     use alone with a lead of 1 to 64 operations, as far as the next stay, or the tensor's life; where there
//     is no room for it, what rests there unused leaves for its gap, or what gains least per byte and
//     operation gives up its stay.
//
// A few changes are blind: a stay begins earlier or later, is cut where it rests longest, or ends. Every plan
// is timed by simulate(), so no model stands between. What is slower is taken within a threshold that falls
// to nothing (threshold accepting, Dueck and Scheuer 1990). The same seed gives the same plan.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <utility>

#include "daemon/planner/memories/policies.h"

namespace terrace::planner::memories {
namespace {

constexpr std::uint32_t most_plans = 3000;
constexpr double most_operations = 8e6;    // simulated, of all plans
constexpr double first_threshold = 0.003;  // of the step's time
constexpr int most_victims = 12;

class Search {
 public:
  Search(const Step& step, const Control& control, Planned start)
      : step_(step),
        random_(control.seed),
        room_(step),
        residence_(step.tensors.size()),
        best_(std::move(start)) {
    const double plans = std::min<double>(most_plans, most_operations / static_cast<double>(step.ops.size()));
    plans_ = static_cast<std::uint32_t>(std::max(1.0, plans * control.effort));
  }

  Planned run(const Plan& from) {
    adopt(from);
    Report now = timed();
    for (std::uint32_t i = 0; i < plans_ && can_gain(); ++i) {
      const double left = 1 - static_cast<double>(i) / plans_;
      undo_.clear();
      if (!change(now)) {
        roll_back();
        continue;
      }
      Report next = timed();
      if (next.total_us <= now.total_us + first_threshold * left * left * step_.compute_us) {
        now = std::move(next);
      } else {
        roll_back();
      }
    }
    return std::move(best_);
  }

 private:
  const Step& step_;
  std::mt19937_64 random_;
  Room room_;
  Residence residence_;
  Planned best_;
  std::uint32_t plans_ = 0;
  std::vector<std::pair<std::uint32_t, std::vector<Span>>> undo_;  // tensors as they were, latest last

  double draw() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  std::uint32_t draw(std::size_t below) { return static_cast<std::uint32_t>(random_() % below); }
  std::uint32_t ops() const { return static_cast<std::uint32_t>(step_.ops.size()); }
  std::uint32_t op_of(std::uint32_t use) const { return step_.uses[use].op; }
  bool can_gain() const { return best_.total_us > step_.compute_us * (1 + 1e-6); }

  Report timed() {
    Plan plan = plan_of(step_, residence_);
    Report report = simulate(step_, plan);
    if (report.total_us < best_.total_us) {
      best_.plan = std::move(plan);
      best_.total_us = report.total_us;
    }
    return report;
  }

  // The stays that a plan's entries make, as far as they have room.
  void adopt(const Plan& plan) {
    Residence wished(step_.tensors.size());
    std::vector<std::optional<std::uint32_t>> since(step_.tensors.size());
    for (std::uint32_t t = 0; t < since.size(); ++t)
      if (plan.born_fast[t] && !step_.tensors[t].uses.empty()) since[t] = step_.tensors[t].first;
    for (const Entry& e : plan.entries) {
      std::optional<std::uint32_t>& begin = since[e.tensor];
      if (e.move == Move::in && !begin) begin = e.position;
      if (e.move != Move::out || !begin) continue;
      if (*begin < e.position) wished[e.tensor].push_back({*begin, e.position});
      begin.reset();
    }
    for (std::uint32_t t = 0; t < since.size(); ++t) {
      if (since[t]) wished[t].push_back({*since[t], life(step_.tensors[t]).end});
      for (const Span& s : wished[t])
        if (s.begin < s.end && room_.has(s, step_.tensors[t].bytes)) insert(t, s);
    }
  }

  // Stays that touch become one; the room is taken. `span` overlaps none.
  void insert(std::uint32_t t, Span span) {
    std::vector<Span>& spans = residence_[t];
    room_.take(span, step_.tensors[t].bytes);
    auto it = std::find_if(spans.begin(), spans.end(), [&](const Span& s) { return s.end >= span.begin; });
    while (it != spans.end() && it->begin <= span.end) {
      span = {std::min(span.begin, it->begin), std::max(span.end, it->end)};
      it = spans.erase(it);
    }
    spans.insert(it, span);
  }

  void remember(std::uint32_t t) { undo_.emplace_back(t, residence_[t]); }

  void set(std::uint32_t t, std::vector<Span> spans) {
    for (const Span& s : residence_[t]) room_.give(s, step_.tensors[t].bytes);
    for (const Span& s : spans) room_.take(s, step_.tensors[t].bytes);
    residence_[t] = std::move(spans);
  }

  void roll_back() {
    for (; !undo_.empty(); undo_.pop_back()) set(undo_.back().first, std::move(undo_.back().second));
  }

  bool change(const Report& report) { return draw() < 0.85 ? aimed(report) : blind(); }

  // An operation, in proportion to the time that it loses.
  std::uint32_t losing_op(const Report& report) {
    double sum_us = 0;
    for (const double us : report.lost_us) sum_us += us;
    double at_us = draw() * sum_us;
    for (std::uint32_t op = 0; op < ops(); ++op)
      if ((at_us -= report.lost_us[op]) < 0) return op;
    return draw(ops());
  }

  bool aimed(const Report& report) {
    const std::uint32_t op = losing_op(report);
    double sum_us = 0;
    for (const std::uint32_t u : step_.ops[op].uses) sum_us += is_slow(u) ? step_.uses[u].extra_us : 0;
    double at_us = draw() * sum_us;
    for (const std::uint32_t u : step_.ops[op].uses)
      if (is_slow(u) && (at_us -= step_.uses[u].extra_us) < 0) return stay_around(u);
    // All should be there, and something came too late or found no room: it is asked for earlier.
    return !step_.ops[op].uses.empty() && earlier(step_.ops[op].uses[draw(step_.ops[op].uses.size())]);
  }

  bool is_slow(std::uint32_t use) const {
    const std::vector<Span>& spans = residence_[step_.uses[use].tensor];
    return std::none_of(spans.begin(), spans.end(), [&](const Span& s) { return s.holds(op_of(use)); });
  }

  bool stay_around(std::uint32_t use) {
    const std::uint32_t t = step_.uses[use].tensor;
    const Tensor& tensor = step_.tensors[t];
    if (tensor.bytes > step_.fast_bytes) return false;
    const Span lives = life(tensor);
    Span wish{op_of(use), op_of(use) + 1};
    const auto k = static_cast<std::size_t>(std::find(tensor.uses.begin(), tensor.uses.end(), use) -
                                            tensor.uses.begin());
    const std::uint32_t before = k > 0 ? op_of(tensor.uses[k - 1]) + 1 : lives.begin;
    const std::uint32_t kind = draw(4);
    const std::uint32_t lead = 1U << draw(7);
    if (kind == 0) wish = lives;
    if (kind != 0) wish.begin = std::max(before, wish.begin - std::min(wish.begin, lead));
    if (kind == 1 && k > 0) wish.begin = op_of(tensor.uses[k - 1]);  // from the use before
    if (kind >= 2)
      for (std::size_t next = k + 1; next < tensor.uses.size() && draw() < 0.7; ++next)
        wish.end = op_of(tensor.uses[next]) + 1;
    return give_stay(t, wish);
  }

  // Free parts of the wish become stays; others make room for them.
  bool give_stay(std::uint32_t t, const Span& wish) {
    remember(t);
    std::vector<Span> parts;
    std::uint32_t at = wish.begin;
    for (const Span& s : residence_[t]) {
      if (s.end <= at || s.begin >= wish.end) continue;
      if (s.begin > at) parts.push_back({at, s.begin});
      at = std::max(at, s.end);
    }
    if (at < wish.end) parts.push_back({at, wish.end});
    int victims = most_victims;
    for (const Span& part : parts) {
      while (!room_.has(part, step_.tensors[t].bytes))
        if (victims-- == 0 || !make_room(room_.fullest(part), t)) return false;
      insert(t, part);
    }
    return !parts.empty();
  }

  struct Victim {
    std::uint32_t tensor = 0;
    std::size_t span = 0;
    Span gap;  // what is cut out of the span
  };

  // What rests at the operation, or gains least, leaves. Cheap per byte comes first, by and large.
  bool make_room(std::uint32_t op, std::uint32_t but) {
    std::optional<Victim> found;
    double least = 0;
    for (std::uint32_t t = 0; t < residence_.size(); ++t) {
      if (t == but) continue;
      for (std::size_t i = 0; i < residence_[t].size(); ++i) {
        if (!residence_[t][i].holds(op)) continue;
        const auto [victim, price] = price_of(t, i, op);
        const double drawn = price * std::exp(2 * draw());
        if (found && drawn >= least) continue;
        found = victim;
        least = drawn;
      }
    }
    if (!found) return false;
    cut(*found);
    return true;
  }

  // Of what is lost per byte: either the gap around the operation, and a move, or the whole stay.
  std::pair<Victim, double> price_of(std::uint32_t t, std::size_t i, std::uint32_t op) {
    const Tensor& tensor = step_.tensors[t];
    const Span stay = residence_[t][i];
    Span gap = stay;
    double lost_us = 0;
    bool used = false, before = false, after = false;
    for (const std::uint32_t u : tensor.uses) {
      const std::uint32_t at = op_of(u);
      if (!stay.holds(at)) continue;
      lost_us += step_.uses[u].extra_us;
      used |= at == op;
      if (at < op) {
        gap.begin = at + 1;
        before = true;
      }
      if (at > op && !after) {
        gap.end = at;
        after = true;
      }
    }
    const auto bytes = static_cast<double>(tensor.bytes);
    const double moved_us =
        bytes / step_.in_rate * (after ? 1 : 0) + bytes / step_.out_rate * (before ? 0.5 : 0);
    const double length = gap.end - gap.begin;
    const double gap_price = used || length < 2 ? without_price : moved_us / bytes / std::sqrt(length);
    const double stay_price = lost_us / bytes / std::sqrt(static_cast<double>(stay.end - stay.begin));
    if (gap_price < stay_price) return {{t, i, gap}, gap_price};
    return {{t, i, stay}, stay_price};
  }
  static constexpr double without_price = 1e300;

  // What comes back does so ahead of its use, where the gap is long enough.
  void cut(const Victim& v) {
    remember(v.tensor);
    std::vector<Span> spans = residence_[v.tensor];
    const Span stay = spans[v.span];
    std::uint32_t back = v.gap.end;
    const std::uint32_t lead = std::min(1U << draw(5), (v.gap.end - v.gap.begin) / 2);
    if (v.gap.end < stay.end) back -= lead;
    spans.erase(spans.begin() + static_cast<std::ptrdiff_t>(v.span));
    auto at = spans.begin() + static_cast<std::ptrdiff_t>(v.span);
    if (back < stay.end) at = spans.insert(at, {back, stay.end});
    if (stay.begin < v.gap.begin) spans.insert(at, {stay.begin, v.gap.begin});
    set(v.tensor, std::move(spans));
  }

  bool earlier(std::uint32_t use) {
    const std::uint32_t t = step_.uses[use].tensor;
    for (const Span& s : residence_[t]) {
      if (!s.holds(op_of(use)) || s.begin <= step_.tensors[t].first) continue;
      const std::uint32_t lead = 1U << draw(7);
      const std::uint32_t begin = std::max(step_.tensors[t].first, s.begin - std::min(s.begin, lead));
      return give_stay(t, {begin, s.end});
    }
    return false;
  }

  bool blind() {
    const std::uint32_t t = draw(residence_.size());
    if (residence_[t].empty()) return false;
    const std::size_t i = draw(residence_[t].size());
    const Span s = residence_[t][i];
    const std::uint32_t op = s.begin + draw(s.end - s.begin);
    if (draw(3) == 0)
      return give_stay(t, {s.begin - std::min(s.begin - step_.tensors[t].first, 1U << draw(6)), s.end});
    cut(price_of(t, i, op).first);
    return true;
  }
};

}  // namespace

Planned search_from(const Step& step, const Control& control, Planned best) {
  const Plan from = best.plan;
  return Search(step, control, std::move(best)).run(from);
}

Planned plan_search(const Step& step, const Control& control) {
  Planned best;
  best.total_us = std::numeric_limits<double>::infinity();
  for (const Policy& p : policies()) {
    if (p.plan == plan_search) continue;
    Planned one = p.plan(step, control);
    if (one.total_us < best.total_us) best = {std::move(one.plan), one.total_us, 0};
  }
  return search_from(step, control, std::move(best));
}

}  // namespace terrace::planner::memories
