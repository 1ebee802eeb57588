// One process of a job, as the daemon knows it: who it is, the segment it writes its counters and events
// into, and what was learned from them. It holds none of the job's data and none of its pool.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "daemon/sessions/process/lifetimes.h"
#include "daemon/sessions/process/process_memory.h"
#include "daemon/sessions/process/resident_check.h"
#include "daemon/sessions/process/segment_layout.h"
#include "daemon/sessions/session_plan.h"
#include "daemon/shares/arbiter.h"

namespace terrace::daemon {

struct Peer {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
};

using Counters = std::array<std::uint64_t, wire::stat_count>;

class Session {
 public:
  static constexpr std::size_t events_per_round = 8192;
  static constexpr std::uint64_t many_events = Segment::ring_capacity / 8;
  static constexpr std::uint64_t read_ns = 10'000'000'000;

  Session(SessionId id, const Peer& peer, JobKey job, std::string program, Segment segment);

  SessionId id() const { return id_; }
  const Peer& peer() const { return peer_; }
  const JobKey& job() const { return job_; }
  const std::shared_ptr<const std::string>& job_name() const { return job_name_; }
  const std::string& program() const { return program_; }
  Segment& segment() { return segment_; }

  // What the kernel counts of the process from now on.
  void watch(ProcessMemory memory) { memory_ = std::move(memory); }
  // Asks the kernel, and compares with what counters() say, beside the `others_bytes` that other sessions of
  // the process have. `is_waited_for`: others wait for the process to give.
  void check_resident(bool is_waited_for, std::uint64_t others_bytes, std::uint64_t now_ns);
  // What the kernel counted then of the whole process.
  std::optional<std::uint64_t> kernel_resident_bytes() const { return kernel_resident_bytes_; }
  std::uint64_t checked_ns() const { return checked_ns_; }
  const ResidentCheck& resident_check() const { return resident_check_; }
  // Resident, as it counts: what the process reports, or more where that cannot be.
  std::uint64_t resident_bytes() const;

  // Copies the counters out of the segment: what counters() says until the next call.
  void snapshot();
  const Counters& counters() const { return counters_; }
  std::uint64_t counter(wire::Stat stat) const { return counters_[static_cast<std::size_t>(stat)]; }

  // Whether events are to be read: many, or some and none were for a while. Reading a few costs as much as
  // reading a thousand.
  bool has_events_due(std::uint64_t now_ns) const;
  // Up to events_per_round new events.
  std::size_t read_events(wire::Event* out, std::uint64_t now_ns);
  std::uint64_t lost_events() const { return reader_.lost(); }
  Lifetimes& lifetimes() { return lifetimes_; }
  const Lifetimes& lifetimes() const { return lifetimes_; }

  // Announced last; a change is worth a message.
  std::uint64_t announced_pool_limit = 0;
  std::uint64_t announced_nvm_limit = 0;
  bool reattached = false;
  bool takes_write_leases = false;  // an older library does not
  bool takes_schedules = false;     // likewise
  bool takes_tiers = false;         // it asked for what there is before the pool
  bool has_told_nvm = false;        // that it has of an earlier daemon
  // Of an offload engine, which may stand beside another session of its process; empty: it is none.
  std::string device;
  bool is_engine() const { return !device.empty(); }
  // Of a GPU heap, whose counters are of that device's memory; empty: it is none.
  std::string gpu;
  bool is_gpu_heap() const { return !gpu.empty(); }
  SessionPlan plan;

 private:
  SessionId id_;
  Peer peer_;
  JobKey job_;
  std::shared_ptr<const std::string> job_name_;
  std::string program_;
  Segment segment_;
  wire::RingReader reader_;
  Lifetimes lifetimes_;
  Counters counters_{};
  ProcessMemory memory_;
  ResidentCheck resident_check_;
  std::optional<std::uint64_t> kernel_resident_bytes_;
  std::uint64_t checked_ns_ = 0;
  std::uint64_t read_head_ = 0;  // the ring's when it was read last
  std::uint64_t read_at_ns_ = 0;
};

}  // namespace terrace::daemon
