// What the executor promises, as lists and loops: nothing here is fast, bounded or shared with it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "liballoc/wire/schedule/executor.h"

namespace terrace::wire::test {

class ExecutorModel {
 public:
  struct Waiting {
    std::uint32_t node = 0, lane = 0, object = 0;
    std::uint64_t begin = 0, end = 0, rank = 0, number = 0;
    bool urgent = false;
    bool is_in() const { return lane % 2 == 1; }
    bool operator<(const Waiting& other) const {
      if (urgent != other.urgent) return urgent;
      return rank != other.rank ? rank < other.rank : number < other.number;
    }
  };

  explicit ExecutorModel(const ExecutorPlan& plan)
      : plan_(plan), away_(plan.objects.size(), 0), shifts_(plan.entries.size(), 0) {
    for (const ScheduleEntry& e : plan.entries) triggers_.push_back(e.at);
    list_due();
  }

  void advance(std::uint32_t ordinal) { ordinal_ = std::max(ordinal_, std::min(ordinal, plan_.period)); }

  std::uint32_t take() {
    if (!following_ || due_.empty() || triggers_[due_.front()] > ordinal_) return Executor::none;
    const std::uint32_t entry = due_.front();
    due_.erase(due_.begin());
    return entry;
  }

  void begin_period() {
    if (following_) missed_ += due_.size();
    following_ = true;
    ++periods_;
    ordinal_ = 0;
    for (std::size_t i = 0; i < shifts_.size(); ++i) settle(i);
    list_due();
  }

  void depart() {
    following_ = false;
    waiting_.clear();
  }

  Executor::Asked ask(std::uint32_t entry, std::uint32_t link) {
    const ScheduleEntry& e = plan_.entries[entry];
    return enter(made(entry, link, e.action == Action::in, e.object, e.begin, e.bytes, e.by, false));
  }

  Executor::Asked ask_extra(std::uint32_t node, const Executor::Request& r) {
    if (waits(node) || under_way_.contains(node)) return Executor::Asked::there;
    return enter(made(node, r.link, r.way == Way::in, r.object, r.begin, r.bytes, ordinal_, r.urgent));
  }

  void hurry(std::uint32_t node) {
    for (Waiting& w : waiting_) {
      if (w.node != node) continue;
      w.urgent = true;
      w.number = ++last_number_;
      w.rank = rank(w.is_in(), ordinal_);
    }
  }

  void call_off(std::uint32_t node) {
    std::erase_if(waiting_, [node](const Waiting& w) { return w.node == node; });
  }

  std::uint32_t next(std::uint32_t lane) const {
    const Waiting* first = nullptr;
    for (const Waiting& w : waiting_)
      if (w.lane == lane && (first == nullptr || w < *first)) first = &w;
    return first == nullptr ? Executor::none : first->node;
  }

  void start(std::uint32_t node) {
    for (const Waiting& w : waiting_)
      if (w.node == node) under_way_[node] = w;
    call_off(node);
  }

  void done(std::uint32_t node) {
    const Waiting w = under_way_.at(node);
    under_way_.erase(node);
    const std::uint64_t moved = w.end - w.begin;
    std::uint64_t& away = away_[w.object];
    away = w.is_in() ? away - std::min(away, moved) : std::min(away + moved, plan_.objects[w.object].bytes);
  }

  void abort(std::uint32_t node) { under_way_.erase(node); }

  void forget(std::uint32_t object) {
    away_[object] = 0;
    std::erase_if(waiting_, [object](const Waiting& w) { return w.object == object; });
  }

  void shift(std::uint32_t entry, int direction) {
    const ScheduleEntry& e = plan_.entries[entry];
    if (e.action != Action::in) return;
    const int part = static_cast<int>(std::max((e.by - e.at) / 20, 1U));
    const int most = static_cast<int>(plan_.period);
    shifts_[entry] = std::clamp(shifts_[entry] + direction * part, -most, most);
  }

  bool waits(std::uint32_t node) const {
    return std::any_of(waiting_.begin(), waiting_.end(), [&](const Waiting& w) { return w.node == node; });
  }
  const std::vector<Waiting>& waiting() const { return waiting_; }
  const std::map<std::uint32_t, Waiting>& under_way() const { return under_way_; }
  std::uint64_t away_bytes(std::uint32_t object) const { return away_[object]; }
  std::uint64_t missed() const { return missed_; }
  std::uint32_t trigger(std::uint32_t entry) const { return triggers_[entry]; }

 private:
  ExecutorPlan plan_;
  std::vector<Waiting> waiting_;
  std::map<std::uint32_t, Waiting> under_way_;
  std::vector<std::uint64_t> away_;
  std::vector<int> shifts_;
  std::vector<std::uint32_t> triggers_, due_;
  std::uint64_t periods_ = 0, missed_ = 0, last_number_ = 0;
  std::uint32_t ordinal_ = 0;
  bool following_ = true;

  std::uint64_t rank(bool in, std::uint64_t ordinal) const {
    const Order order = in ? plan_.in_order : plan_.out_order;
    return order == Order::deadline ? periods_ * plan_.period + ordinal : 0;
  }

  Waiting made(std::uint32_t node, std::uint32_t link, bool in, std::uint32_t object, std::uint64_t begin,
               std::uint64_t bytes, std::uint32_t by, bool urgent) const {
    const std::uint64_t all = plan_.objects[object].bytes;
    Waiting w;
    w.node = node;
    w.lane = 2 * link + (in ? 1 : 0);
    w.object = object;
    w.begin = begin;
    w.end = bytes > all - begin ? all : begin + bytes;
    w.rank = rank(in, by);
    w.urgent = urgent;
    return w;
  }

  Executor::Asked enter(Waiting asked) {
    const auto touches = [&](const Waiting& w) {
      return w.object == asked.object && w.begin < asked.end && asked.begin < w.end;
    };
    const auto covers = [&](const Waiting& w) {
      return touches(w) && w.begin <= asked.begin && asked.end <= w.end;
    };
    for (const Waiting& w : waiting_)
      if (covers(w) && w.is_in() == asked.is_in()) return Executor::Asked::there;
    const auto opposes = [&](const Waiting& w) { return touches(w) && w.is_in() != asked.is_in(); };
    const bool never_left = std::any_of(waiting_.begin(), waiting_.end(),
                                        [&](const Waiting& w) { return opposes(w) && covers(w); });
    std::erase_if(waiting_, opposes);
    if (never_left) return Executor::Asked::called_off;
    if (waits(asked.node) || under_way_.contains(asked.node)) return Executor::Asked::there;
    asked.number = ++last_number_;
    waiting_.push_back(asked);
    return Executor::Asked::waits;
  }

  // The trigger within its bounds: not before the object left in this period, nor after its deadline.
  void settle(std::size_t i) {
    const ScheduleEntry& e = plan_.entries[i];
    if (e.action != Action::in) return;
    int low = 0;
    for (std::size_t before = 0; before < i; ++before) {
      const ScheduleEntry& b = plan_.entries[before];
      if (b.object == e.object && (b.action == Action::out || b.action == Action::drop))
        low = static_cast<int>(b.at);
    }
    const int at = static_cast<int>(e.at), high = static_cast<int>(std::min(e.by, plan_.period));
    const int trigger = std::max(low, std::min(high, at + shifts_[i]));
    triggers_[i] = static_cast<std::uint32_t>(trigger);
    shifts_[i] = trigger - at;
  }

  void list_due() {
    due_.clear();
    for (std::uint32_t i = 0; i < triggers_.size(); ++i) due_.push_back(i);
    std::stable_sort(due_.begin(), due_.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return triggers_[a] < triggers_[b]; });
  }
};

}  // namespace terrace::wire::test
