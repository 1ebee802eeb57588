#include "liballoc/wire/schedule/executor.h"

#include <algorithm>

namespace terrace::wire {
namespace {

constexpr std::uint32_t feedback_parts = 20;  // Capuchin's 5%

// Hands the caller's memory out, piece after piece, each aligned to 8.
class Pieces {
 public:
  explicit Pieces(std::byte* memory) : memory_(memory) {}

  template <class T>
  T* take(std::size_t count) {
    static_assert(alignof(T) <= 8);
    std::byte* at = memory_ + used_;
    used_ += (count * sizeof(T) + 7) / 8 * 8;
    return reinterpret_cast<T*>(at);
  }
  std::byte* take_bytes(std::size_t bytes) { return take<std::byte>(bytes); }
  std::size_t used() const { return used_; }

 private:
  std::byte* memory_;
  std::size_t used_ = 0;
};

}  // namespace

std::size_t Executor::memory_bytes(const ExecutorPlan& plan) noexcept {
  const std::size_t nodes = plan.nodes(), objects = plan.objects.size(), entries = plan.entries.size();
  const auto piece = [](std::size_t bytes) { return (bytes + 7) / 8 * 8; };
  return piece(DeadlineQueues::memory_bytes(plan.links * 2, plan.nodes())) +
         piece(objects * sizeof(std::uint64_t)) + piece(plan.extra * sizeof(Extra)) +
         piece(nodes * sizeof(Links)) + 3 * piece(entries * sizeof(std::uint32_t)) +
         2 * piece(objects * sizeof(std::uint32_t)) + piece(nodes * sizeof(State));
}

// The order of the pieces is that of memory_bytes().
Executor::Executor(const ExecutorPlan& plan, std::byte* memory) noexcept
    : plan_(plan), queues_(plan.links * 2, plan.nodes(), memory) {
  Pieces pieces(memory);
  pieces.take_bytes(DeadlineQueues::memory_bytes(plan.links * 2, plan.nodes()));
  const std::size_t objects = plan.objects.size();
  away_ = pieces.take<std::uint64_t>(objects);
  extras_ = pieces.take<Extra>(plan.extra);
  links_ = pieces.take<Links>(plan.nodes());
  shifts_ = pieces.take<std::int32_t>(plan.entries.size());
  triggers_ = pieces.take<std::uint32_t>(plan.entries.size());
  way_ = pieces.take<std::uint32_t>(plan.entries.size());
  first_ = pieces.take<std::uint32_t>(objects);
  left_at_ = pieces.take<std::uint32_t>(objects);
  states_ = pieces.take<State>(plan.nodes());
  std::fill_n(away_, objects, std::uint64_t{0});
  std::fill_n(first_, objects, none);
  std::fill_n(states_, plan.nodes(), State::idle);
}

// --- the cursor

void Executor::advance(std::uint32_t ordinal) noexcept {
  ordinal_ = std::max(ordinal_, std::min(ordinal, plan_.period));
}

std::uint32_t Executor::trigger(std::uint32_t entry) const noexcept {
  return shifted_ ? triggers_[entry] : plan_.entries[entry].at;
}

std::uint32_t Executor::take() noexcept {
  if (!following_ || cursor_ == plan_.entries.size()) return none;
  const std::uint32_t entry = shifted_ ? way_[cursor_] : cursor_;
  if (trigger(entry) > ordinal_) return none;
  ++cursor_;
  return entry;
}

std::uint32_t Executor::next_trigger() const noexcept {
  if (!following_ || cursor_ == plan_.entries.size()) return none;
  return trigger(shifted_ ? way_[cursor_] : cursor_);
}

void Executor::begin_period() noexcept {
  if (following_) missed_ += plan_.entries.size() - cursor_;
  following_ = true;
  base_ += plan_.period;
  ordinal_ = cursor_ = 0;
  if (shift_pending_) order_by_trigger();
  shift_pending_ = false;
}

void Executor::depart() noexcept {
  following_ = false;
  for (std::uint32_t lane = 0; lane < plan_.links * 2; ++lane)
    for (const std::uint32_t node : queues_.waiting(lane)) first_[bytes_of(node).object] = none;
  queues_.clear();
}

// --- requests

Executor::Bytes Executor::bytes_of(std::uint32_t object, std::uint64_t begin,
                                   std::uint64_t bytes) const noexcept {
  const std::uint64_t all = plan_.objects[object].bytes;
  return {object, begin, begin + std::min(bytes, all - begin)};
}

Executor::Bytes Executor::bytes_of(std::uint32_t node) const noexcept {
  if (is_extra(node)) return extras_[node - plan_.entries.size()].bytes;
  const ScheduleEntry& e = plan_.entries[node];
  return bytes_of(e.object, e.begin, e.bytes);
}

Way Executor::way_of(std::uint32_t node) const noexcept {
  if (is_extra(node)) return extras_[node - plan_.entries.size()].way;
  return plan_.entries[node].action == Action::in ? Way::in : Way::out;
}

std::uint64_t Executor::rank(std::uint64_t deadline, Way way) const noexcept {
  return (way == Way::out ? plan_.out_order : plan_.in_order) == Order::deadline ? deadline : 0;
}

Executor::Asked Executor::ask(std::uint32_t entry, std::uint32_t link) noexcept {
  return enter(entry, link, base_ + plan_.entries[entry].by, false);
}

Executor::Asked Executor::ask_extra(std::uint32_t node, const Request& request) noexcept {
  if (queues_.waits(node) || is_under_way(node)) return Asked::there;
  extras_[node - plan_.entries.size()] = {bytes_of(request.object, request.begin, request.bytes),
                                          request.way};
  return enter(node, request.link, base_ + ordinal_, request.urgent);
}

Executor::Asked Executor::enter(std::uint32_t node, std::uint32_t link, std::uint64_t deadline,
                                bool urgent) noexcept {
  const Bytes bytes = bytes_of(node);
  const Way way = way_of(node);
  bool never_left = false;
  for (std::uint32_t other = first_[bytes.object], after = none; other != none; other = after) {
    after = links_[other].after;
    const Bytes theirs = bytes_of(other);
    if (theirs.begin >= bytes.end || bytes.begin >= theirs.end) continue;
    const bool covers = theirs.begin <= bytes.begin && bytes.end <= theirs.end;
    if (way_of(other) != way) {
      call_off(other);
      never_left |= covers;
    } else if (covers) {
      return Asked::there;  // and nothing was called off: opposites that wait never share a byte
    }
  }
  if (never_left) return Asked::called_off;
  if (queues_.waits(node) || is_under_way(node)) return Asked::there;
  queues_.push(lane(link, way), node, rank(deadline, way), urgent);
  link_in(node, bytes.object);
  return Asked::waits;
}

void Executor::link_in(std::uint32_t node, std::uint32_t object) noexcept {
  const std::uint32_t after = first_[object];
  links_[node] = {none, after};
  if (after != none) links_[after].before = node;
  first_[object] = node;
}

void Executor::link_out(std::uint32_t node) noexcept {
  const Links l = links_[node];
  if (l.after != none) links_[l.after].before = l.before;
  (l.before != none ? links_[l.before].after : first_[bytes_of(node).object]) = l.after;
}

void Executor::hurry(std::uint32_t node) noexcept {
  if (!queues_.waits(node)) return;
  const std::uint32_t lane = queues_.lane_of(node);
  queues_.remove(node);
  queues_.push(lane, node, rank(base_ + ordinal_, way_of(node)), true);
}

void Executor::call_off(std::uint32_t node) noexcept {
  if (!queues_.waits(node)) return;
  queues_.remove(node);
  link_out(node);
}

void Executor::start(std::uint32_t node) noexcept {
  call_off(node);
  states_[node] = State::under_way;
}

void Executor::done(std::uint32_t node) noexcept {
  states_[node] = State::idle;
  const Bytes b = bytes_of(node);
  const std::uint64_t moved = b.end - b.begin, before = away_[b.object];
  away_[b.object] = way_of(node) == Way::out ? std::min(before + moved, plan_.objects[b.object].bytes)
                                             : before - std::min(before, moved);
}

void Executor::abort(std::uint32_t node) noexcept { states_[node] = State::idle; }

void Executor::forget(std::uint32_t object) noexcept {
  away_[object] = 0;
  while (first_[object] != none) call_off(first_[object]);
}

// --- feedback

void Executor::late(std::uint32_t entry) noexcept { shift(entry, -1); }
void Executor::early(std::uint32_t entry) noexcept { shift(entry, 1); }

void Executor::shift(std::uint32_t entry, std::int32_t direction) noexcept {
  const ScheduleEntry& e = plan_.entries[entry];
  if (e.action != Action::in) return;
  if (!shifted_) {
    for (std::uint32_t i = 0; i < plan_.entries.size(); ++i) {
      shifts_[i] = 0;
      triggers_[i] = plan_.entries[i].at;
      way_[i] = i;
    }
    shifted_ = true;
  }
  const std::uint32_t part = e.by == no_deadline ? 1 : std::max((e.by - e.at) / feedback_parts, 1U);
  const std::int64_t most = plan_.period;
  const std::int64_t shifted = shifts_[entry] + std::int64_t{direction} * part;
  shifts_[entry] = static_cast<std::int32_t>(std::clamp(shifted, -most, most));
  shift_pending_ = true;
}

// A shift ends at the trigger's bounds, so that feedback beyond them is not saved up.
void Executor::order_by_trigger() noexcept {
  const auto count = static_cast<std::uint32_t>(plan_.entries.size());
  std::fill_n(left_at_, plan_.objects.size(), 0U);
  for (std::uint32_t i = 0; i < count; ++i) {
    const ScheduleEntry& e = plan_.entries[i];
    if (e.action == Action::out || e.action == Action::drop) left_at_[e.object] = e.at;
    if (e.action != Action::in) continue;
    const std::int64_t low = left_at_[e.object], at = e.at;
    const std::int64_t high = std::max<std::int64_t>(std::min(e.by, plan_.period), at);
    const std::int64_t trigger = std::clamp(at + shifts_[i], low, high);
    triggers_[i] = static_cast<std::uint32_t>(trigger);
    shifts_[i] = static_cast<std::int32_t>(trigger - at);
  }
  std::sort(way_, way_ + count, [this](std::uint32_t a, std::uint32_t b) {
    return triggers_[a] != triggers_[b] ? triggers_[a] < triggers_[b] : a < b;
  });
}

}  // namespace terrace::wire
