#include "daemon/planner/recompute/search/runs.h"

#include <algorithm>

namespace terrace::planner::recompute {

Runs runs_of(const Schedule& schedule) {
  Runs runs;
  for (const Move& move : schedule)
    if (move.kind == Move::Kind::compute) runs.push_back(move.index);
  return runs;
}

std::int64_t cost_ns_of(const Step& step, const Runs& runs) {
  std::int64_t sum = 0;
  for (const std::uint32_t op : runs) sum += step.operations[op].cost_ns;
  return sum;
}

// From behind: what is needed later stays.
Schedule schedule_of(const Step& step, const Runs& runs) {
  std::vector<char> needed(step.storages.size(), 0);
  for (std::size_t s = 0; s < needed.size(); ++s) needed[s] = step.storages[s].kept ? 1 : 0;
  Schedule backwards;
  for (std::size_t run = runs.size(); run-- > 0;) {
    const Operation& op = step.operations[runs[run]];
    const auto free = [&](std::uint32_t s) { backwards.push_back({Move::Kind::free, s}); };
    for (const std::uint32_t s : op.makes)
      if (needed[s] == 0) free(s);
    for (const std::uint32_t s : op.reads)
      if (needed[s] == 0 && !step.storages[s].constant()) free(s);
    backwards.push_back({Move::Kind::compute, runs[run]});
    for (const std::uint32_t s : op.makes) needed[s] = 0;
    for (const std::uint32_t s : op.reads) needed[s] = 1;
  }
  return {backwards.rbegin(), backwards.rend()};
}

Holding::Holding(const Step& step)
    : step_(step),
      last_span_(step.storages.size()),
      last_(step.storages.size()),
      next_(step.storages.size()),
      carrying_(step) {}

void Holding::look(const Runs& runs) {
  carries_ = false;
  carrying_.begin({});
  find_spans(runs);
  measure(runs);
}

void Holding::look(const Runs& runs, const std::vector<Carried>& carried, const Link& link) {
  carries_ = true;
  find_times(runs);
  carrying_.begin(carried);
  find_spans(runs);
  carrying_.schedule(link, times_);
  measure(runs);
}

void Holding::find_times(const Runs& runs) {
  times_.position.resize(runs.size());
  times_.start_ns.assign(runs.size() + 1, 0);
  std::uint32_t next = 0;  // the operation that has not run yet; some run later than those behind them
  for (std::size_t run = 0; run < runs.size(); ++run) {
    next = std::max(next, runs[run]);
    times_.position[run] = next;
    if (runs[run] == next) ++next;
    times_.start_ns[run + 1] = times_.start_ns[run] + step_.operations[runs[run]].cost_ns;
  }
}

void Holding::find_spans(const Runs& runs) {
  spans_.clear();
  std::fill(last_span_.begin(), last_span_.end(), none);
  used_.assign(runs.size(), 0);
  const auto count = static_cast<std::uint32_t>(runs.size());
  for (std::uint32_t run = 0; run < count; ++run) {
    const Operation& op = step_.operations[runs[run]];
    for (const std::uint32_t s : op.reads) {
      if (carries_) carrying_.note(s, run, times_.position[run], true);
      if (last_span_[s] == none) continue;  // a constant
      spans_[last_span_[s]].end = run;
      used_[spans_[last_span_[s]].begin] = 1;
    }
    for (const std::uint32_t s : op.makes) {
      if (carries_) carrying_.note(s, run, times_.position[run], false);
      spans_.push_back({run, run, last_span_[s]});
      last_span_[s] = static_cast<std::uint32_t>(spans_.size() - 1);
    }
  }
  for (std::size_t s = 0; s < step_.storages.size(); ++s) {
    if (!step_.storages[s].kept || last_span_[s] == none) continue;
    spans_[last_span_[s]].end = count;
    used_[spans_[last_span_[s]].begin] = 1;
  }
}

void Holding::add(std::uint32_t begin, std::uint32_t end, std::int64_t bytes) {
  change_[begin] += bytes;
  change_[end] -= bytes;
}

// What a run makes counts with the run; it is held from the next one on.
void Holding::measure(const Runs& runs) {
  change_.assign(runs.size() + 2, 0);
  for (std::size_t s = 0; s < last_span_.size(); ++s) {
    for (std::uint32_t i = last_span_[s]; i != none; i = spans_[i].before) {
      const auto bytes = static_cast<std::int64_t>(step_.storages[s].bytes);
      if (spans_[i].end != spans_[i].begin) add(spans_[i].begin + 1, spans_[i].end + 1, bytes);
    }
  }
  const std::vector<Absence>& absences = carrying_.absences();
  for (std::size_t i = 0; i < absences.size(); ++i) {
    const Storage& away = step_.storages[carrying_.carried()[i].storage];
    add(absences[i].begin, absences[i].end, -static_cast<std::int64_t>(away.bytes));
  }
  auto held = static_cast<std::int64_t>(step_.constant_bytes);
  peak_ = {};
  for (std::uint32_t run = 0; run < runs.size(); ++run) {
    held += change_[run];
    const Operation& op = step_.operations[runs[run]];
    const std::uint64_t bytes = static_cast<std::uint64_t>(held) + op.made_bytes + op.workspace_bytes;
    if (bytes > peak_.bytes) peak_ = {bytes, run};
  }
}

bool Holding::holds_over(std::uint32_t storage, std::uint32_t run) const {
  for (std::uint32_t i = last_span_[storage]; i != none; i = spans_[i].before)
    if (spans_[i].begin < run) return spans_[i].end >= run;
  return step_.storages[storage].constant();
}

void Holding::rests_at(std::uint32_t run, const Runs& runs, std::vector<Rest>* rests) {
  constexpr std::uint32_t made_again = nothing - 1;
  std::fill(next_.begin(), next_.end(), nothing);
  for (const std::uint32_t s : step_.operations[runs[run]].reads) next_[s] = made_again;
  for (std::uint32_t later = run; later < runs.size(); ++later) {
    const Operation& op = step_.operations[runs[later]];
    if (later > run) {
      for (const std::uint32_t s : op.reads)
        if (next_[s] == nothing) next_[s] = later;
    }
    for (const std::uint32_t s : op.makes)
      if (next_[s] == nothing) next_[s] = made_again;
  }
  if (carries_) find_last(run, runs);
  rests->clear();
  for (std::uint32_t s = 0; s < next_.size(); ++s) {
    if (next_[s] == made_again || (step_.storages[s].constant() && !rests_unread(s))) continue;
    if (next_[s] == nothing) {
      if (!step_.storages[s].kept) continue;
      next_[s] = static_cast<std::uint32_t>(runs.size());
    }
    if (holds_over(s, run) && !carrying_.is_away(s, run)) rests->push_back({s, last_[s], next_[s]});
  }
}

void Holding::find_last(std::uint32_t run, const Runs& runs) {
  std::fill(last_.begin(), last_.end(), nothing);
  for (std::uint32_t earlier = 0; earlier < run; ++earlier) {
    for (const std::uint32_t s : step_.operations[runs[earlier]].reads) last_[s] = earlier;
    for (const std::uint32_t s : step_.operations[runs[earlier]].makes) last_[s] = earlier;
  }
}

}  // namespace terrace::planner::recompute
