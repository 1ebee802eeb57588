// AutoTM with moves (Hildebrand et al., ASPLOS'20, section 4): the programme of gap_programme.h with windows
// of 15 operations, made whole.
//
// AutoTM's solver (Gurobi, an hour, a gap of 1%) is not at hand, and Clp has no cuts; so its relaxation is
// rounded: uses and gaps above a threshold are fast, those that gain most for their room first, each move as
// early as 15 operations ahead of its use where there is room. What then has room all its life stays there,
// as the integer programme would have it. Nine thresholds are simulated, and AutoTM's static plan, which is a
// whole solution of the same programme; the best is the plan. How far that is from the programme's own best
// is not known; the table's bound stands for it.
#include <algorithm>
#include <tuple>

#include "daemon/planner/memories/gap_programme.h"
#include "daemon/planner/memories/policies.h"

namespace terrace::planner::memories {
namespace {

constexpr std::uint32_t most_ahead = 15;  // operations, as in AutoTM's code

struct Piece {
  std::uint32_t tensor = 0;
  std::size_t from = 0, to = 0;  // of Tensor::uses, both included
  double density = 0;            // time gained per byte and operation
};

class Rounding {
 public:
  Rounding(const Step& step, const GapProgramme& programme, double threshold)
      : step_(step),
        programme_(programme),
        threshold_(threshold),
        room_(step),
        residence_(step.tensors.size()) {}

  Plan plan() {
    std::vector<Piece> pieces;
    for (std::uint32_t t = 0; t < step_.tensors.size(); ++t)
      if (programme_.has(t)) add_pieces(t, &pieces);
    std::stable_sort(pieces.begin(), pieces.end(),
                     [](const Piece& a, const Piece& b) { return a.density > b.density; });
    for (const Piece& p : pieces) place(p);
    fill();
    for (std::vector<Span>& spans : residence_)
      std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
    Plan plan = plan_of(step_, residence_);
    plan.entries.insert(plan.entries.begin(), waits_.begin(), waits_.end());
    std::stable_sort(plan.entries.begin(), plan.entries.end(), [](const Entry& a, const Entry& b) {
      return std::tuple(a.position, a.move == Move::wait) < std::tuple(b.position, b.move == Move::wait);
    });
    return plan;
  }

 private:
  const Step& step_;
  const GapProgramme& programme_;
  double threshold_;
  Room room_;
  Residence residence_;
  std::vector<Entry> waits_;

  std::uint32_t op_of(const Tensor& t, std::size_t k) const { return step_.uses[t.uses[k]].op; }

  void add_pieces(std::uint32_t tensor, std::vector<Piece>* pieces) const {
    const Tensor& t = step_.tensors[tensor];
    for (std::size_t k = 0; k < t.uses.size(); ++k) {
      if (programme_.found_fast(t.uses[k]) < threshold_) continue;
      Piece p{tensor, k, k, step_.uses[t.uses[k]].extra_us};
      while (k + 1 < t.uses.size() && programme_.stays(t.uses[k]) >= threshold_) {
        p.to = ++k;
        p.density += step_.uses[t.uses[k]].extra_us;
      }
      const double ops = op_of(t, p.to) - op_of(t, p.from) + 1.0;
      p.density /= static_cast<double>(t.bytes) * ops;
      pieces->push_back(p);
    }
  }

  void place(const Piece& p) {
    const Tensor& t = step_.tensors[p.tensor];
    const bool wraps = t.persistent && programme_.stays(t.uses.back()) >= threshold_;
    Span span{op_of(t, p.from), op_of(t, p.to) + 1};
    if (wraps && p.from == 0) span.begin = 0;
    if (wraps && p.to + 1 == t.uses.size()) span.end = life(t).end;
    if (!room_.has(span, t.bytes)) {
      if (p.from == p.to) return;
      const std::size_t middle = (p.from + p.to) / 2;  // halves may have room
      place({p.tensor, p.from, middle, p.density});
      return place({p.tensor, middle + 1, p.to, p.density});
    }
    const bool born = p.from == 0 && !t.persistent;
    if (!born && span.begin > 0) {
      const std::uint32_t after = p.from == 0 ? 0 : op_of(t, p.from - 1) + 1;
      const std::uint32_t least = std::max(after, span.begin - std::min(span.begin, most_ahead));
      const std::uint32_t use = span.begin;
      if (least < use) span.begin = room_.earliest(least, use, t.bytes);
      const bool waits = programme_.waits(t.uses[p.from]) >= 0.5;
      if (waits) waits_.push_back({use, p.tensor, Move::wait});
      if (span.begin == use && p.from == p.to && !waits) return;  // it would come too late
    }
    room_.take(span, t.bytes);
    residence_[p.tensor].push_back(span);
  }

  void fill() {
    std::vector<std::tuple<double, std::uint32_t>> order;
    for (std::uint32_t t = 0; t < step_.tensors.size(); ++t) {
      const Tensor& tensor = step_.tensors[t];
      if (tensor.uses.empty() || !residence_[t].empty()) continue;
      double gain_us = 0;
      for (const std::uint32_t u : tensor.uses) gain_us += step_.uses[u].extra_us;
      order.emplace_back(-gain_us / static_cast<double>(tensor.bytes) / (tensor.last - tensor.first + 1.0),
                         t);
    }
    std::sort(order.begin(), order.end());
    for (const auto& [gain, t] : order) {
      const Span span = life(step_.tensors[t]);
      if (!room_.has(span, step_.tensors[t].bytes)) continue;
      room_.take(span, step_.tensors[t].bytes);
      residence_[t] = {span};
    }
  }
};

}  // namespace

Planned plan_autotm_moves(const Step& step, const Control& control) {
  Planned best = plan_autotm_static(step, control);
  best.bound_us = 0;  // of plans that move nothing
  GapProgramme programme(step, {.window_ops = most_ahead});
  programme.solve();
  for (int tenth = 1; tenth < 10; ++tenth) {
    Plan plan = Rounding(step, programme, tenth * 0.1).plan();
    const double total_us = simulate(step, plan).total_us;
    if (total_us < best.total_us) best = {std::move(plan), total_us, 0};
  }
  return best;
}

}  // namespace terrace::planner::memories
