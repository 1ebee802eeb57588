#include "daemon/planner/memories/gap_programme.h"

#include <algorithm>
#include <map>
#include <optional>

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
      waited_(fast_),
      counted_read_us_(step.uses.size(), 0),
      counted_written_us_(step.uses.size(), 0) {
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
  const std::uint32_t count = window_of(ops - 1) + 1;
  std::vector<double> times_us(count, 0), read_us(count, 0), written_us(count, 0);
  for (std::uint32_t op = 0; op < ops; ++op) {
    times_us[window_of(op)] += step_.ops[op].time_us;
    count_accesses(op, &read_us, &written_us);
  }
  for (std::uint32_t j = 0; j < count; ++j) {
    Window w;
    w.length = programme_.add_column(1, 0, most_us_ / unit_us_);
    w.computing = programme_.add_row(times_us[j] / unit_us_, without_limit);
    w.in = programme_.add_row(read_us[j] / unit_us_, without_limit);
    w.out = programme_.add_row(written_us[j] / unit_us_, without_limit);
    for (const std::uint32_t row : {w.computing, w.in, w.out}) programme_.add(row, w.length, 1);
    windows_.push_back(w);
  }
}

// What an operation reads of the slow memory counts against moves, but no more than its time: the share of it
// that moves have is never below nothing. Where it is found fast it does not count.
void GapProgramme::count_accesses(std::uint32_t op, std::vector<double>* read_us,
                                  std::vector<double>* written_us) {
  double all_read_us = 0, all_written_us = 0;
  for (const std::uint32_t u : step_.ops[op].uses) {
    all_read_us += step_.uses[u].slow_read_us;
    all_written_us += step_.uses[u].slow_write_us;
  }
  const double time_us = step_.ops[op].time_us;
  const double read_part = all_read_us > time_us ? time_us / all_read_us : 1;
  const double written_part = all_written_us > time_us ? time_us / all_written_us : 1;
  for (const std::uint32_t u : step_.ops[op].uses) {
    if (!in_it_[step_.uses[u].tensor]) continue;
    counted_read_us_[u] = read_part * step_.uses[u].slow_read_us;
    counted_written_us_[u] = written_part * step_.uses[u].slow_write_us;
    (*read_us)[window_of(op)] += counted_read_us_[u];
    (*written_us)[window_of(op)] += counted_written_us_[u];
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
    if (counted_read_us_[u] > 0)
      programme_.add(windows_[window_of(op)].in, fast_[u], counted_read_us_[u] / unit_us_);
    if (counted_written_us_[u] > 0)
      programme_.add(windows_[window_of(op)].out, fast_[u], counted_written_us_[u] / unit_us_);
    if (k + 1 == t.uses.size() && !t.persistent) continue;
    const std::uint32_t next = t.uses[(k + 1) % t.uses.size()];
    kept_[u] = programme_.add_column(0, 0, 1);
    if (op + 1 != op_of(next)) take_room(kept_[u], t, {op + 1, op_of(next)});
    const std::uint32_t row = programme_.add_row(-without_limit, 0);
    programme_.add(row, kept_[u], 1);
    programme_.add(row, fast_[u], -1);
  }
  for (std::size_t k = t.persistent ? 0 : 1; k < t.uses.size(); ++k) {
    const std::uint32_t use = t.uses[k], before = k > 0 ? t.uses[k - 1] : t.uses.back();
    const std::uint32_t row = programme_.add_row(-without_limit, 0);
    programme_.add(row, fast_[use], 1);
    programme_.add(row, kept_[before], -1);
    if (is_bound()) {
      add_moves(t, use, before, row);
    } else {
      add_near_moves(t, use, before, row);
    }
  }
  add_copies(t);
}

std::uint32_t GapProgramme::add_move(const Tensor& t, std::uint32_t window) {
  const std::uint32_t column = programme_.add_column(0, 0, 1);
  programme_.add(windows_[window].in, column, -static_cast<double>(t.bytes) / step_.in_rate / unit_us_);
  return column;
}

std::uint32_t GapProgramme::add_copy(const Tensor& t, std::uint32_t window) {
  const std::uint32_t column = programme_.add_column(0, 0, 1);
  programme_.add(windows_[window].out, column, -static_cast<double>(t.bytes) / step_.out_rate / unit_us_);
  return column;
}

// In any window of the gap, which may lead over the step's border.
void GapProgramme::add_moves(const Tensor& t, std::uint32_t use, std::uint32_t before, std::uint32_t row) {
  const auto count = static_cast<std::uint32_t>(windows_.size());
  const std::uint32_t from = op_of(before), to = op_of(use);
  const std::uint32_t first = window_of(from);
  const std::uint32_t last = window_of(to) + (to <= from ? count : 0);
  for (std::uint32_t j = first; j <= last; ++j) {
    const std::uint32_t column = add_move(t, j % count);
    programme_.add(row, column, -1);
    for (std::size_t i = 0; i < instants_.size(); ++i) {
      const std::uint32_t op = instants_[i];
      const bool within = from < to ? from < op && op < to : op > from || op < to;
      const std::uint32_t window = window_of(op) + (op > from ? 0 : count);
      if (within && window > j) programme_.add(rooms_[i], column, size(t));
    }
  }
}

// AutoTM's: at most two windows ahead, or while the computation waits.
void GapProgramme::add_near_moves(const Tensor& t, std::uint32_t use, std::uint32_t before,
                                  std::uint32_t row) {
  waited_[use] = programme_.add_column(static_cast<double>(t.bytes) / step_.in_rate / unit_us_, 0, 1);
  programme_.add(row, waited_[use], -1);
  const std::uint32_t to = op_of(use), from = op_of(before);
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

// A copy serves all gaps until the next write, over the step's border, too. What is older than the step and
// never written has one already.
void GapProgramme::add_copies(const Tensor& t) {
  const auto count = static_cast<std::uint32_t>(windows_.size());
  std::optional<std::uint32_t> write;
  if (!t.persistent) write = t.uses.front();
  for (const std::uint32_t u : t.uses)
    if (t.persistent && step_.uses[u].writes) write = u;
  std::map<std::uint32_t, std::vector<std::uint32_t>> copies;  // columns, by write, of the windows after it
  for (std::size_t k = 0; k < t.uses.size(); ++k) {
    const std::uint32_t u = t.uses[k];
    if (step_.uses[u].writes) write = u;
    if (!write || kept_[u] == no_column) continue;
    // Windows from the write to the gap's end, counted on over the border.
    const std::uint32_t next = op_of(t.uses[(k + 1) % t.uses.size()]);
    const std::uint32_t first = window_of(op_of(*write));
    std::uint32_t windows =
        is_bound() ? window_of(next) + (next <= op_of(*write) ? count : 0) - first + 1 : 1;
    windows = std::min(windows, count + 1);
    std::vector<std::uint32_t>& of_write = copies[*write];
    while (of_write.size() < windows) {
      const auto after = static_cast<std::uint32_t>(of_write.size());
      of_write.push_back(
          add_copy(t, is_bound() ? (first + after) % count : std::min(window_of(op_of(u)) + 1, count - 1)));
    }
    const std::uint32_t row = programme_.add_row(0, without_limit);
    for (std::uint32_t i = 0; i < windows; ++i) programme_.add(row, of_write[i], 1);
    programme_.add(row, kept_[u], 1);
    programme_.add(row, fast_[*write], -1);
  }
}

void GapProgramme::solve() { programme_.solve(options_.most_iterations, &multipliers_, &values_); }

double GapProgramme::bound_us() const {
  return multipliers_.empty() ? 0 : programme_.lagrangian(multipliers_) * unit_us_;
}

double least_step_us(const Step& step) {
  GapProgramme programme(step, {.most_uses = 3000, .most_instants = 96});
  programme.solve();
  return std::max(step.compute_us, programme.bound_us());
}

}  // namespace terrace::planner::memories
