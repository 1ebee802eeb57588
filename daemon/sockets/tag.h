// What an event of the poller is about: a kind in the low bits of its tag, and above them the number of the
// connection that it is of.
#pragma once

#include <cstdint>

namespace terrace::daemon {

using ConnectionId = std::uint64_t;

enum class EventKind : std::uint64_t { listener, stop, signal, files, plans, connection, process, metrics };

inline constexpr std::uint64_t event_kind_bits = 3;

constexpr std::uint64_t tag_of(EventKind kind, ConnectionId id = 0) {
  return id << event_kind_bits | static_cast<std::uint64_t>(kind);
}
constexpr EventKind kind_of(std::uint64_t tag) {
  return static_cast<EventKind>(tag & ((1U << event_kind_bits) - 1));
}
constexpr ConnectionId connection_of(std::uint64_t tag) { return tag >> event_kind_bits; }

}  // namespace terrace::daemon
