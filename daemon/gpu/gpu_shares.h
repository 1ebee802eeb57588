// Who may hold how much memory of each GPU. Pure: no clock, no I/O.
//
//   a device's memory ── group, or a user in none ── user ── job (uid, name) ── session (a heap of a process)
//
// Each device is divided by an arbiter of its own (shares/arbiter.h), by the rules of DRAM with three
// differences, since a heap can give back only what no kernel may use (liballoc/gpu/heap/offers.h):
//
//   * Nobody is promised a size. All share by weights, guarantees and limits, and a lowered grant is a
//     request: what a heap cannot give stays with it, is waited for a minute at most, and is named.
//   * What is guaranteed to somebody who is not there is lent to nobody. It would not come back.
//   * What jobs have and do not use is lent only where the administrator says so.
//
// The daemon does not see a GPU's memory: that takes NVML and a device node, which the service has neither
// of. So what heaps say of the device's size counts, of each user the least, and of all users the middle one,
// the larger of two: one liar among several moves nothing. Where the administrator says the size in
// terraced.toml, no more than that is granted whatever is said. A heap that says that it holds less than it
// does is not found out: the driver then refuses to others what they were granted.
//
// Invariant: what a device's sessions are granted sums up to no more than its budget, but for a start for
// those that join while others have yet to give way (arbiter.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/shares/arbiter.h"
#include "liballoc/wire/amount.h"

namespace terrace::daemon {

// What a heap says when it joins.
struct GpuClaim {
  std::string device;              // which one: the same in every process of the machine
  std::uint64_t device_bytes = 0;  // its size
  std::uint64_t held_bytes = 0;    // what an earlier daemon granted it
  bool is_back = false;            // from a session with one
  std::uint32_t weight = 0;        // of its job; 0: nothing is said of it
};

// One device as `terrace tiers` shows it.
struct GpuView {
  std::uint64_t device_bytes = 0;  // as heaps say
  std::uint64_t budget_bytes = 0;  // of that, what is divided
  std::uint64_t granted_bytes = 0;
  std::uint64_t reported_bytes = 0;  // what heaps say that they hold
  std::size_t sessions = 0;
};

class GpuShares {
 public:
  // More devices than a machine has: who makes names up gets no further.
  static constexpr std::size_t most_devices_of_user = 16;

  // Of each device `memory` is divided, by `users`, which speak of `whole_bytes` and are scaled to that.
  void set_rules(wire::Amount memory, UserShares users, std::uint64_t whole_bytes);

  // EINVAL: no device or a size that none has; EUSERS: too many devices; ENOSPC: not even two frames are left
  // beside what is guaranteed to others.
  std::optional<Refusal> join(SessionId session, const JobKey& job, const GpuClaim& claim);
  void leave(SessionId session);
  // `demand`: frames it holds, and what it has allocated or was refused.
  void observe(SessionId session, const Demand& demand);
  // Grants that changed, givers first.
  std::vector<Change> rebalance();
  // A round has passed: those that were waited for in vain, each once.
  std::vector<SessionId> end_round();
  bool is_waited_for(SessionId session) const;
  // Of each device what the job has at most, while it runs, also of one where it is not yet; no_limit:
  // nothing is said. A lowered grant is a request. EPERM: an administrator set another; EINVAL: too little.
  std::optional<Refusal> set_job_limit(const JobKey& job, const JobLimit& limit);
  void forget_job(const JobKey& job);
  // Of the job on every device where it is. False: on none.
  bool set_job_weight(const JobKey& job, std::uint64_t weight);

  bool has(SessionId session) const { return sessions_.contains(session); }
  std::uint64_t granted_bytes(SessionId session) const;
  // What the job has of the device for certain, and what is said of it there.
  std::uint64_t job_budget_bytes(const std::string& device, const JobKey& job) const;
  const UserShares* users_on(const std::string& device) const;  // null: no such device
  // What is said of it while it runs, of each device.
  JobLimit job_limit(const JobKey& job) const { return users_.job_limit(job); }
  std::map<std::string, GpuView> devices() const;

 private:
  struct Session {
    std::string device;
    JobKey job;
    std::uint64_t said_bytes = 0;
    std::uint64_t held_bytes = 0;  // as reported
  };
  struct Device {
    Arbiter arbiter{0};
    std::uint64_t bytes = 0;  // as heaps say
  };

  std::size_t devices_of(std::uint32_t uid, const std::string& beside) const;
  std::uint64_t said_bytes(const std::string& device) const;
  void size(const std::string& name, Device* device);
  void divide(Device* device);
  const Device* device_of(SessionId session) const;
  Device* device_of(SessionId session);

  wire::Amount memory_ = wire::Amount::percent(100);
  UserShares users_;
  std::uint64_t whole_bytes_ = 1;
  std::map<SessionId, Session> sessions_;
  std::map<std::string, Device> devices_;
};

}  // namespace terrace::daemon
