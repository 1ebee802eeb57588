#include "liballoc/agent/publisher.h"

#include <cstddef>
#include <cstring>

namespace terrace::liballoc {
namespace {

constexpr std::uint64_t pause_ns = 100'000'000;

wire::Mover wire_mover(MoverKind kind) {
  switch (kind) {
    case MoverKind::move:
      return wire::Mover::move;
    case MoverKind::mremap:
      return wire::Mover::mremap;
    case MoverKind::automatic:
      break;
  }
  return wire::Mover::none;
}

wire::Pager wire_pager(const Availability& availability) {
  if (std::strcmp(availability.state(), "active") == 0) return wire::Pager::active;
  return availability.is_unavailable() ? wire::Pager::unavailable : wire::Pager::inactive;
}

wire::Io wire_io(const PoolTier& pool) {
  if (!pool.is_open()) return wire::Io::none;
  return std::strcmp(pool.io(), "io_uring") == 0 ? wire::Io::io_uring : wire::Io::pread;
}

}  // namespace

// Both lists are in the same order (wire/segment.h): one word per counter, the codecs' and what follows them
// behind the session's state.
void Publisher::publish_counters(wire::JobStats& out) {
  terrace_statistics s{};
  s.size = sizeof(s);
  accounts_.read_as_agent(&s);
  const auto* words = reinterpret_cast<const std::uint64_t*>(&s) + 1;
  constexpr std::size_t counters = offsetof(terrace_statistics, codecs) / sizeof(std::uint64_t) - 1;
  constexpr std::size_t more = sizeof(terrace_statistics) / sizeof(std::uint64_t) - 1 - counters;
  constexpr auto first = static_cast<std::size_t>(wire::first_codec_stat);
  static_assert(counters == static_cast<std::size_t>(wire::Stat::pool_used_bytes));
  static_assert(first + more == static_cast<std::size_t>(wire::first_speed_stat));
  for (std::size_t i = 0; i < counters; ++i) out.set(static_cast<wire::Stat>(i), words[i]);
  for (std::size_t i = 0; i < more; ++i) out.set(static_cast<wire::Stat>(first + i), words[counters + i]);
  out.set(wire::Stat::pool_used_bytes, pager_.extents().used_bytes());
  pool_.meters().publish(&out);
}

void Publisher::publish_states(wire::JobStats& out) const {
  out.set_state(wire::Stat::phase, wire::Phase::running);
  out.set_state(wire::Stat::pager, wire_pager(availability_));
  out.set_state(wire::Stat::mover, wire_mover(mover_.kind()));
  out.set_state(wire::Stat::io, wire_io(pool_));
}

void Publisher::publish(std::uint64_t now_ns) {
  next_ns_ = now_ns + pause_ns;
  told_of_more_ = pager_.holds_too_much();
  if (!daemon_.is_used()) return;
  wire::JobStats& out = *daemon_.client().stats();
  publish_counters(out);
  out.set(wire::Stat::heartbeat_ns, now_ns);
  publish_states(out);
  if (!budget_.follows_limit()) return;
  out.set(wire::Stat::cgroup_usage_bytes, budget_.cgroup_usage_bytes());
  out.set(wire::Stat::cgroup_limit_bytes, budget_.cgroup_limit_bytes());
}

}  // namespace terrace::liballoc
