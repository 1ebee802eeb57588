#include "daemon/planner/memories/simulate.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>

namespace terrace::planner::memories {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

struct State {
  bool live = false;
  bool fast = false;     // it lies in the fast memory and is used there
  bool copied = false;   // the slow memory has its content
  bool room = false;     // it takes room of the fast memory
  bool leaves = false;   // as soon as the running operation has ended
  bool asked[2] = {};    // waits in the queue of this direction, [in]
  std::size_t stay = 0;  // index into Report::stays
};

struct UnderWay {
  std::uint32_t tensor = 0;
  double start_us = 0, latency_us = 0, bytes = 0;  // still to go
};

struct Rates {
  double in = 0, out = 0;
};

class Run {
 public:
  Run(const Step& step, const Plan& plan, const Options& options)
      : step_(step),
        plan_(plan),
        options_(options),
        states_(step.tensors.size()),
        written_(step.tensors.size()),
        named_(step.tensors.size()) {}

  Report run() {
    for (std::uint32_t t = 0; t < states_.size(); ++t)
      if (step_.tensors[t].persistent) come_to_be(t);
    for (std::uint32_t s = 0; s < options_.steps; ++s) {
      last_ = s + 1 == options_.steps;
      one_step();
    }
    finish();
    return std::move(report_);
  }

 private:
  const Step& step_;
  const Plan& plan_;
  const Options& options_;
  std::vector<State> states_;
  std::vector<bool> written_, named_;  // by the running operation
  std::deque<std::uint32_t> queues_[2];
  std::optional<UnderWay> moving_[2];
  std::uint64_t used_bytes_ = 0;
  double now_us_ = 0;
  std::uint32_t runs_ended_ = 0;
  bool last_ = false;
  Report report_;

  std::uint64_t bytes(std::uint32_t t) const { return step_.tensors[t].bytes; }
  bool has_room(std::uint32_t t) const { return bytes(t) <= step_.fast_bytes - used_bytes_; }

  void one_step() {
    const double begin_us = now_us_;
    auto entry = plan_.entries.begin();
    for (std::uint32_t op = 0; op < step_.ops.size(); ++op) {
      const double ready_us = now_us_;
      for (; entry != plan_.entries.end() && entry->position <= op; ++entry) obey(*entry);
      run_op(op, ready_us);
    }
    for (; entry != plan_.entries.end(); ++entry) obey(*entry);
    report_.total_us = now_us_ - begin_us;
  }

  void obey(const Entry& entry) {
    if (entry.move == Move::wait) return wait_for(entry.tensor);
    const bool in = entry.move == Move::in;
    State& s = states_[entry.tensor];
    if (!s.live || s.asked[in ? 1 : 0]) return;
    if (s.asked[in ? 0 : 1]) {
      call_off(entry.tensor, !in);
      if (s.fast == in && !is_moving(entry.tensor)) return;
    }
    s.asked[in ? 1 : 0] = true;
    queues_[in ? 1 : 0].push_back(entry.tensor);
    start_moves();
  }

  void call_off(std::uint32_t t, bool in) {
    std::deque<std::uint32_t>& queue = queues_[in ? 1 : 0];
    queue.erase(std::find(queue.begin(), queue.end(), t));
    states_[t].asked[in ? 1 : 0] = false;
  }

  bool is_moving(std::uint32_t t) const {
    return (moving_[0] && moving_[0]->tensor == t) || (moving_[1] && moving_[1]->tensor == t);
  }

  void come_to_be(std::uint32_t t) {
    State& s = states_[t];
    s.live = true;
    s.copied = true;
    if (!plan_.born_fast[t] || !has_room(t)) return;
    take_room(t);
    s.fast = true;
    s.copied = false;
  }

  void take_room(std::uint32_t t) {
    State& s = states_[t];
    s.room = true;
    used_bytes_ += bytes(t);
    report_.fast_peak_bytes = std::max(report_.fast_peak_bytes, used_bytes_);
    if (!options_.timeline) return;
    s.stay = report_.stays.size();
    report_.stays.push_back({t, now_us_, never, runs_ended_, ~std::uint32_t{0}});
  }

  void free_room(std::uint32_t t) {
    State& s = states_[t];
    if (!s.room) return;
    s.room = s.fast = s.leaves = false;
    used_bytes_ -= bytes(t);
    if (!options_.timeline) return;
    report_.stays[s.stay].end_us = now_us_;
    report_.stays[s.stay].end_run = runs_ended_;
  }

  void leave(std::uint32_t t) {
    if (named_[t]) {
      states_[t].leaves = true;
    } else {
      free_room(t);
    }
  }

  void run_op(std::uint32_t op, double ready_us) {
    const Operation& o = step_.ops[op];
    for (const std::uint32_t u : o.uses) {
      const Use& use = step_.uses[u];
      if (!states_[use.tensor].live) come_to_be(use.tensor);
      written_[use.tensor] = use.writes;  // none of their moves begins from here on
    }
    for (const std::uint32_t u : o.uses)
      while (written_[step_.uses[u].tensor] && is_moving(step_.uses[u].tensor) && pass_to_next_end())
        continue;
    const double start_us = now_us_;
    double extra_us = 0, read_us = 0, written_us = 0;
    for (const std::uint32_t u : o.uses) {
      const Use& use = step_.uses[u];
      named_[use.tensor] = true;
      if (states_[use.tensor].fast) continue;
      extra_us += use.extra_us;
      read_us += use.slow_read_us;
      written_us += use.slow_write_us;
    }
    const double takes_us = o.takes_us(extra_us);
    pass(takes_us,
         {step_.in_rate * idle_share(read_us, takes_us), step_.out_rate * idle_share(written_us, takes_us)});
    ++runs_ended_;
    for (const std::uint32_t u : o.uses) end_use(op, step_.uses[u]);
    if (last_) {
      report_.access_us += takes_us - o.time_us;
      report_.wait_us += start_us - ready_us;
      report_.lost_us.push_back(takes_us - o.time_us + start_us - ready_us);
    }
    if (options_.timeline) report_.runs.push_back({ready_us, start_us, now_us_});
    start_moves();
  }

  static double idle_share(double busy_us, double of_us) {
    return of_us > 0 ? std::max(0.0, 1 - busy_us / of_us) : 1;
  }

  void end_use(std::uint32_t op, const Use& use) {
    State& s = states_[use.tensor];
    named_[use.tensor] = written_[use.tensor] = false;
    if (use.writes) s.copied = !s.fast;
    const Tensor& tensor = step_.tensors[use.tensor];
    if (!tensor.persistent && tensor.last == op) return die(use.tensor);
    if (s.leaves) free_room(use.tensor);
  }

  void die(std::uint32_t t) {
    for (const bool in : {false, true}) {
      if (states_[t].asked[in ? 1 : 0]) call_off(t, in);
      if (moving_[in ? 1 : 0] && moving_[in ? 1 : 0]->tensor == t) stop(in);
    }
    free_room(t);
    states_[t] = State();
  }

  void stop(bool in) {
    record(in, false);
    moving_[in ? 1 : 0].reset();
  }

  void record(bool in, bool ended) {
    const UnderWay& m = *moving_[in ? 1 : 0];
    if (ended && last_) (in ? report_.in_bytes : report_.out_bytes) += static_cast<double>(bytes(m.tensor));
    if (options_.timeline) report_.transfers.push_back({m.tensor, in, ended, m.start_us, now_us_});
  }

  void start_moves() {
    while (start_out()) continue;  // what leaves at once makes room
    while (start_in()) continue;
  }

  // True: the head of the queue is gone, there may be more to do.
  bool start_out() {
    if (moving_[0] || queues_[0].empty()) return false;
    const std::uint32_t t = queues_[0].front();
    State& s = states_[t];
    if (written_[t] || is_moving(t)) return false;
    queues_[0].pop_front();
    s.asked[0] = false;
    if (!s.fast || s.leaves) return true;
    if (s.copied) {
      leave(t);
    } else {
      moving_[0] = UnderWay{t, now_us_, step_.out_latency_us, static_cast<double>(bytes(t))};
    }
    return true;
  }

  bool start_in() {
    if (moving_[1] || queues_[1].empty()) return false;
    const std::uint32_t t = queues_[1].front();
    State& s = states_[t];
    if (written_[t] || is_moving(t) || s.leaves || (!s.fast && !has_room(t))) return false;
    queues_[1].pop_front();
    s.asked[1] = false;
    if (s.fast) return true;
    take_room(t);
    moving_[1] = UnderWay{t, now_us_, step_.in_latency_us, static_cast<double>(bytes(t))};
    return true;
  }

  void end_move(bool in) {
    const std::uint32_t t = moving_[in ? 1 : 0]->tensor;
    record(in, true);
    moving_[in ? 1 : 0].reset();
    if (in) {
      states_[t].fast = true;
    } else {
      states_[t].copied = true;
      leave(t);
    }
  }

  static double end_us(const std::optional<UnderWay>& m, double from_us, double rate) {
    if (!m) return never;
    if (m->bytes <= 0) return from_us + m->latency_us;
    return rate > 0 ? from_us + m->latency_us + m->bytes / rate : never;
  }

  static void progress(std::optional<UnderWay>* m, double us, double rate) {
    if (!*m) return;
    const double of_latency_us = std::min(us, (*m)->latency_us);
    (*m)->latency_us -= of_latency_us;
    (*m)->bytes -= (us - of_latency_us) * rate;
  }

  void pass(double us, Rates rates) {
    const double until_us = now_us_ + us;
    for (start_moves();; start_moves()) {
      const double out_us = end_us(moving_[0], now_us_, rates.out);
      const double in_us = end_us(moving_[1], now_us_, rates.in);
      const double next_us = std::min({until_us, out_us, in_us});
      progress(&moving_[0], next_us - now_us_, rates.out);
      progress(&moving_[1], next_us - now_us_, rates.in);
      now_us_ = next_us;
      if (out_us <= next_us) end_move(false);
      if (in_us <= next_us) end_move(true);
      if (out_us > next_us && in_us > next_us) return;
    }
  }

  // False: nothing is under way.
  bool pass_to_next_end() {
    start_moves();
    const double next_us =
        std::min(end_us(moving_[0], now_us_, step_.out_rate), end_us(moving_[1], now_us_, step_.in_rate));
    if (next_us == never) return false;
    pass(next_us - now_us_, {step_.in_rate, step_.out_rate});
    return true;
  }

  void wait_for(std::uint32_t t) {
    const State& s = states_[t];
    while ((s.asked[0] || s.asked[1] || is_moving(t)) && pass_to_next_end()) continue;
  }

  void finish() {
    for (const bool in : {false, true})
      if (moving_[in ? 1 : 0]) stop(in);
    for (Stay& stay : report_.stays) stay.end_us = std::min(stay.end_us, now_us_);
    std::stable_sort(report_.transfers.begin(), report_.transfers.end(),
                     [](const Transfer& a, const Transfer& b) { return a.start_us < b.start_us; });
  }
};

}  // namespace

Report simulate(const Step& step, const Plan& plan, const Options& options) {
  return Run(step, plan, options).run();
}

}  // namespace terrace::planner::memories
