// A client of terraced without a library in between: it connects as any user, and joins as a job does.
#pragma once

#include <sys/mman.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "daemon/base/unique_fd.h"
#include "liballoc/wire/protocol.h"
#include "liballoc/wire/segment.h"

namespace terrace::tests::scale {

using Fd = daemon::UniqueFd;

// CLOCK_MONOTONIC.
std::uint64_t clock_ns();

// Connects as that user, by whom the daemon counts; only root can. Any thread may. No descriptor: errno says
// why.
Fd connect_as(uid_t uid, const std::string& socket);
bool send_packet(int socket, const void* bytes, std::size_t size, int flags = 0);
bool send_request(int socket, const std::string& json);

struct Unmap {
  std::uint64_t bytes = 0;
  void operator()(char* base) const { ::munmap(base, bytes); }
};

// The segment of a session, as its job sees it.
class JobSegment {
 public:
  JobSegment() = default;
  JobSegment(const wire::Welcome& welcome, int fd);
  bool is_mapped() const { return mapping_ != nullptr; }
  wire::JobStats& stats() { return *reinterpret_cast<wire::JobStats*>(mapping_.get() + stats_offset_); }
  wire::RingWriter& events() { return writer_; }

 private:
  std::unique_ptr<char, Unmap> mapping_;
  std::uint64_t stats_offset_ = 0;
  wire::RingWriter writer_;
};

inline constexpr std::uint64_t small_pool_bytes = std::uint64_t{16} << 20;

struct Joined {
  Fd socket;
  wire::Welcome welcome;
  JobSegment segment;
};

// connect, Hello, Welcome; nothing when the daemon does not grant it within ten seconds. `map`: the segment,
// too.
std::optional<Joined> join(const std::string& socket, uid_t uid, const std::string& job, bool map,
                           std::uint64_t pool_wanted_bytes = small_pool_bytes);

}  // namespace terrace::tests::scale
