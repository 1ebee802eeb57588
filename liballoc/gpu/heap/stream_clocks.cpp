#include "liballoc/gpu/heap/stream_clocks.h"

#include <algorithm>
#include <cerrno>

namespace terrace::liballoc::gpu {

using tiers::gpu::Event;

StreamClocks::~StreamClocks() {
  for (const Clock& clock : clocks_) {
    for (const Pending& p : clock.pending) device_.destroy_event(p.event);
  }
  for (const Event event : spare_) device_.destroy_event(event);
}

Owner StreamClocks::owner(Stream stream) {
  if (latest_ != nobody && clocks_[latest_ - 1].stream == stream) return latest_;
  for (Owner i = 0; i < clocks_.size(); ++i) {
    if (clocks_[i].stream == stream) return latest_ = i + 1;
  }
  clocks_.emplace_back().stream = stream;
  return latest_ = static_cast<Owner>(clocks_.size());
}

int StreamClocks::record(Clock* clock) {
  Event event = nullptr;
  if (!spare_.empty()) {
    event = spare_.back();
    spare_.pop_back();
  } else if (const int error = device_.create_event(&event); error != 0) {
    return error;
  }
  if (const int error = device_.record(event, clock->stream); error != 0) {
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
  const Mark mark{clock.next, owner};
  ++clock.unrecorded;
  // A failure leaves the mark open; the next event of the stream covers it.
  if (clocks_.size() > 1 || clock.unrecorded >= batch) record(&clock);
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
