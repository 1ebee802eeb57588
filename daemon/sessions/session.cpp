// See session.h.
#include "daemon/sessions/session.h"

#include <utility>

#include "daemon/base/size.h"

namespace terrace::daemon {

Session::Session(SessionId id, const Peer& peer, JobKey job, std::string program, Segment segment)
    : id_(id),
      peer_(peer),
      job_(std::move(job)),
      job_name_(std::make_shared<const std::string>(job_.name)),
      program_(std::move(program)),
      segment_(std::move(segment)),
      reader_(segment_.ring(), Segment::ring_capacity) {}

void Session::snapshot() {
  const wire::JobStats& stats = segment_.stats();
  for (std::size_t i = 0; i < wire::stat_count; ++i) counters_[i] = stats.get(static_cast<wire::Stat>(i));
}

// The head may be anything; it decides no more than when it is looked at again.
bool Session::has_events_due(std::uint64_t now_ns) const {
  const std::uint64_t fresh = segment_.ring()->head.load(std::memory_order_relaxed) - read_head_;
  return fresh >= many_events || (fresh != 0 && now_ns >= read_at_ns_ + read_ns);
}

std::size_t Session::read_events(wire::Event* out, std::uint64_t now_ns) {
  const std::uint64_t head = segment_.ring()->head.load(std::memory_order_relaxed);
  if (head == read_head_) return 0;
  read_head_ = head;
  read_at_ns_ = now_ns;
  const std::size_t count = reader_.read(out, events_per_round);
  segment_.let_go_of_events();
  return count;
}

void Session::check_resident(bool is_waited_for, std::uint64_t others_bytes, std::uint64_t now_ns) {
  checked_ns_ = now_ns;
  kernel_resident_bytes_ = memory_.resident_bytes();
  if (!kernel_resident_bytes_) return;
  resident_check_.observe(counter(wire::Stat::resident_bytes), minus(*kernel_resident_bytes_, others_bytes),
                          is_waited_for);
}

std::uint64_t Session::resident_bytes() const {
  return resident_check_.resident_bytes(counter(wire::Stat::resident_bytes));
}

}  // namespace terrace::daemon
