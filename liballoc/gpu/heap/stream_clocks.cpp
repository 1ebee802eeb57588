#include "liballoc/gpu/heap/stream_clocks.h"

#include <algorithm>
#include <atomic>
#include <cerrno>

namespace terrace::liballoc::gpu {

using tiers::gpu::Event;
using tiers::gpu::stream_of_this_thread;

namespace {

// Never given twice.
std::uint64_t number_of_this_thread() {
  static std::atomic<std::uint64_t> last{0};
  thread_local const std::uint64_t number = ++last;
  return number;
}

}  // namespace

StreamClocks::~StreamClocks() {
  for (const Clock& clock : clocks_) {
    for (const Pending& p : clock.pending) device_.destroy_event(p.event);
  }
  for (const Event event : spare_) device_.destroy_event(event);
}

Owner StreamClocks::owner(Stream stream) {
  const std::uint64_t thread = stream == stream_of_this_thread ? number_of_this_thread() : 0;
  const auto is_its = [&](const Clock& clock) {
    return clock.stream == stream && clock.thread == thread && !clock.ended;
  };
  if (latest_ != nobody && is_its(clocks_[latest_ - 1])) return latest_;
  auto clock = std::find_if(clocks_.begin(), clocks_.end(), is_its);
  if (clock == clocks_.end()) {
    clock = std::find_if(clocks_.begin(), clocks_.end(), [this](Clock& c) { return is_free(&c); });
    if (clock == clocks_.end()) clock = clocks_.emplace(clock);
    clock->stream = stream;
    clock->thread = thread;
    clock->ended = false;
  }
  return latest_ = static_cast<Owner>(clock - clocks_.begin() + 1);
}

// Whoever gets its number next has nothing to wait for.
bool StreamClocks::is_free(Clock* clock) {
  if (clock->kept > 0 || (!clock->ended && clock->thread == 0)) return false;
  poll(clock);
  return clock->unrecorded == 0 && clock->pending.empty();
}

void StreamClocks::end(Stream stream) {
  for (Clock& clock : clocks_) {
    if (clock.stream != stream || clock.thread != 0 || clock.ended) continue;
    ++clock.unrecorded;  // what was not freed yet may be in use until here
    record(&clock);
    clock.ended = true;
  }
}

int StreamClocks::record(Clock* clock) {
  if (clock->ended) return EINVAL;
  const bool is_anothers = clock->thread != 0 && clock->thread != number_of_this_thread();
  const Stream stream = is_anothers ? nullptr : clock->stream;
  Event event = nullptr;
  if (!spare_.empty()) {
    event = spare_.back();
    spare_.pop_back();
  } else if (const int error = device_.create_event(&event); error != 0) {
    return error;
  }
  if (const int error = device_.record(event, stream); error != 0) {
    spare_.push_back(event);
    return error;
  }
  clock->pending.push_back({clock->next++, event});
  clock->unrecorded = 0;
  ++recorded_;
  return 0;
}

Mark StreamClocks::mark(Owner owner) {
  Clock& clock = clocks_[owner - 1];
  if (clock.ended) return {clock.unrecorded == 0 ? clock.next - 1 : clock.next, owner};
  const Mark mark{clock.next, owner};
  ++clock.unrecorded;
  // A failure leaves the mark open; the next event of the stream covers it.
  if (clock.stream != nullptr || clocks_.size() > 1 || clock.unrecorded >= batch) record(&clock);
  return mark;
}

void StreamClocks::flush() {
  for (Clock& clock : clocks_) {
    if (clock.unrecorded > 0) record(&clock);
  }
}

void StreamClocks::poll(Clock* clock) {
  while (!clock->pending.empty() && device_.query(clock->pending.front().event) == 0) {
    clock->passed = clock->pending.front().sequence;
    spare_.push_back(clock->pending.front().event);
    clock->pending.pop_front();
  }
}

bool StreamClocks::passed(const Mark& mark) {
  if (mark.owner == nobody) return true;
  Clock& clock = clocks_[mark.owner - 1];
  if (mark.sequence > clock.passed) poll(&clock);
  return mark.sequence <= clock.passed;
}

int StreamClocks::event_for(Clock* clock, const Mark& mark, Event* event) {
  if (mark.sequence >= clock->next) {
    if (const int error = record(clock); error != 0) return error;
  }
  const auto at = std::find_if(clock->pending.begin(), clock->pending.end(),
                               [&](const Pending& p) { return p.sequence >= mark.sequence; });
  *event = at->event;
  return 0;
}

int StreamClocks::order(Stream stream, const Mark& mark) {
  if (passed(mark)) return 0;
  Event event = nullptr;
  if (const int error = event_for(&clocks_[mark.owner - 1], mark, &event); error != 0) return error;
  return device_.wait(stream, event);
}

int StreamClocks::wait(const Mark& mark) {
  if (passed(mark)) return 0;
  Event event = nullptr;
  if (const int error = event_for(&clocks_[mark.owner - 1], mark, &event); error != 0) return error;
  const int error = device_.synchronize(event);
  if (error == 0) poll(&clocks_[mark.owner - 1]);
  return error;
}

}  // namespace terrace::liballoc::gpu
