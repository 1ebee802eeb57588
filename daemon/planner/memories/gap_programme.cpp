#include "daemon/planner/memories/gap_programme.h"

#include <algorithm>
#include <map>

#include "daemon/planner/memories/instants.h"
#include "daemon/planner/memories/policies.h"

namespace terrace::planner::memories {

GapProgramme::GapProgramme(const Step& step, const Options& options)
    : step_(step),
      options_(options),
      unit_us_(std::max(1e-9, step.compute_us / 1000)),
      unit_bytes_(static_cast<double>(std::max<std::uint64_t>(step.fast_bytes, 1))),
      in_it_(step.tensors.size(), false),
      fast_(step.uses.size(), no_column),
      kept_(fast_),
      waited_(fast_) {
  most_us_ = simulate(step, {std::vector<bool>(step.tensors.size(), false), {}}, {.steps = 1}).total_us;
  choose_tensors();
  instants_ = instants_of(step, options.most_instants);
  for (std::size_t i = 0; i < instants_.size(); ++i) rooms_.push_back(programme_.add_row(-without_limit, 1));
  add_windows();
  for (std::uint32_t t = 0; t < step.tensors.size(); ++t)
    if (in_it_[t]) add(step.tensors[t]);
  add_operations();
}

void GapProgramme::choose_tensors() {
  std::vector<std::uint32_t> order;
  for (std::uint32_t t = 0; t < step_.tensors.size(); ++t)
    if (!step_.tensors[t].uses.empty()) order.push_back(t);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return step_.tensors[a].bytes > step_.tensors[b].bytes;
  });
  std::size_t uses = 0;
  for (const std::uint32_t t : order) {
    uses += step_.tensors[t].uses.size();
    if (uses > options_.most_uses) return;
    in_it_[t] = true;
  }
}

void GapProgramme::add_windows() {
  const auto ops = static_cast<std::uint32_t>(step_.ops.size());
  std::vector<double> times_us(window_of(ops - 1) + 1, 0);
  for (std::uint32_t op = 0; op < ops; ++op) times_us[window_of(op)] += step_.ops[op].time_us;
  for (const double time_us : times_us) {
    Window w;
    w.length = programme_.add_column(1, 0, most_us_ / unit_us_);
    w.computing = programme_.add_row(time_us / unit_us_, without_limit);
    w.in = programme_.add_row(0, without_limit);
    w.out = programme_.add_row(0, without_limit);
    for (const std::uint32_t row : {w.computing, w.in, w.out}) programme_.add(row, w.length, 1);
    windows_.push_back(w);
  }
}

void GapProgramme::add_operations() {
  for (std::uint32_t op = 0; op < step_.ops.size(); ++op) {
    double sum_us = 0;
    for (const std::uint32_t u : step_.ops[op].uses)
      if (fast_[u] != no_column) sum_us += step_.uses[u].extra_us;
    const double exposed_us = sum_us - step_.ops[op].hidden_us;
    if (exposed_us <= 0) continue;
    const std::uint32_t extra = programme_.add_column(0, 0, exposed_us / unit_us_);
    programme_.add(windows_[window_of(op)].computing, extra, -1);
    const std::uint32_t row = programme_.add_row(exposed_us / unit_us_, without_limit);
    programme_.add(row, extra, 1);
    for (const std::uint32_t u : step_.ops[op].uses)
      if (fast_[u] != no_column) programme_.add(row, fast_[u], step_.uses[u].extra_us / unit_us_);
  }
}

void GapProgramme::take_room(std::uint32_t column, const Tensor& t, Span span) {
  for (std::size_t i = 0; i < instants_.size(); ++i) {
    const bool there = span.begin <= span.end ? span.holds(instants_[i])
                                              : instants_[i] >= span.begin || instants_[i] < span.end;
    if (there) programme_.add(rooms_[i], column, size(t));
  }
}

void GapProgramme::add(const Tensor& t) {
  for (std::size_t k = 0; k < t.uses.size(); ++k) {
    const std::uint32_t u = t.uses[k];
    const std::uint32_t op = op_of(u);
    fast_[u] = programme_.add_column(0, 0, size(t) <= 1 ? 1 : 0);
    take_room(fast_[u], t, {op, op + 1});
    if (k + 1 == t.uses.size() && !t.persistent) continue;
    const std::uint32_t next = t.uses[(k + 1) % t.uses.size()];
    kept_[u] = programme_.add_column(0, 0, 1);
    if (op + 1 != op_of(next)) take_room(kept_[u], t, {op + 1, op_of(next)});
    const std::uint32_t row = programme_.add_row(-without_limit, 0);
    programme_.add(row, kept_[u], 1);
    programme_.add(row, fast_[u], -1);
  }
  for (std::size_t k = 0; k < t.uses.size(); ++k) {
    if (k > 0) add_moves(t, t.uses[k], t.uses[k - 1]);
    if (k == 0 && t.persistent) add_moves(t, t.uses[0], t.uses.back());
  }
  add_copies(t);
}

std::uint32_t GapProgramme::add_move(const Tensor& t, std::uint32_t window) {
  const std::uint32_t column = programme_.add_column(0, 0, 1);
  programme_.add(windows_[window].in, column, -static_cast<double>(t.bytes) / step_.in_rate / unit_us_);
  return column;
}

void GapProgramme::add_moves(const Tensor& t, std::uint32_t use, std::optional<std::uint32_t> before) {
  const std::uint32_t row = programme_.add_row(-without_limit, 0);
  programme_.add(row, fast_[use], 1);
  programme_.add(row, kept_[*before], -1);
  if (options_.window_ops == 0) return programme_.add(row, add_move(t, 0), -1);
  waited_[use] = programme_.add_column(static_cast<double>(t.bytes) / step_.in_rate / unit_us_, 0, 1);
  programme_.add(row, waited_[use], -1);
  const std::uint32_t to = op_of(use), from = op_of(*before);
  const std::uint32_t window = window_of(to);
  for (const std::uint32_t back : {0U, 1U}) {
    if (from >= to || window < back) break;  // over the border: only while waiting, or by staying
    const std::uint32_t begin = std::max(from + 1, (window - back) * options_.window_ops);
    if (begin >= to || window_of(begin) != window - back) break;
    const std::uint32_t column = add_move(t, window - back);
    take_room(column, t, {begin, to});
    programme_.add(row, column, -1);
  }
}

// One column for each write, which serves all gaps until the next one, over the step's border, too. What is
// older than the step and never written has a copy already.
void GapProgramme::add_copies(const Tensor& t) {
  std::optional<std::uint32_t> write;
  if (!t.persistent) write = t.uses.front();
  for (const std::uint32_t u : t.uses)
    if (t.persistent && step_.uses[u].writes) write = u;
  std::map<std::uint32_t, std::uint32_t> copies;  // columns, by write
  for (const std::uint32_t u : t.uses) {
    if (step_.uses[u].writes) write = u;
    if (!write || kept_[u] == no_column) continue;
    const auto [copy, is_new] = copies.try_emplace(*write, no_column);
    if (is_new) {
      copy->second = programme_.add_column(0, 0, 1);
      const auto last = static_cast<std::uint32_t>(windows_.size()) - 1;
      const std::uint32_t row = windows_[std::min(window_of(op_of(u)) + 1, last)].out;
      programme_.add(row, copy->second, -static_cast<double>(t.bytes) / step_.out_rate / unit_us_);
    }
    const std::uint32_t row = programme_.add_row(0, without_limit);
    programme_.add(row, copy->second, 1);
    programme_.add(row, kept_[u], 1);
    programme_.add(row, fast_[*write], -1);
  }
}

void GapProgramme::solve() { programme_.solve(options_.most_iterations, &multipliers_, &values_); }

double GapProgramme::bound_us() const {
  return multipliers_.empty() ? 0 : programme_.lagrangian(multipliers_) * unit_us_;
}

double least_step_us(const Step& step) {
  GapProgramme programme(step, {});
  programme.solve();
  return std::max(step.compute_us, programme.bound_us());
}

}  // namespace terrace::planner::memories
