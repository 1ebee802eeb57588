// Sessions that send periods of 10,000 objects, and how long each waits for its plan.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "tests/daemon/scale/client.h"

namespace terrace::tests::scale {

class PlannedSessions {
 public:
  static constexpr std::uint32_t objects = 10'000;

  // The policy is asked for by the job.
  explicit PlannedSessions(const char* policy);
  ~PlannedSessions() { stop(); }
  PlannedSessions(const PlannedSessions&) = delete;

  // "" or what failed. Users from `first_user` on, one session each.
  std::string join_all(const std::string& socket, uid_t first_user, std::size_t count);
  // One session sends one period: until its plan is there, in nanoseconds; 0: it got none.
  std::uint64_t plan_once(std::size_t session);
  // From now on, until stop(): all of them read what they are told; or send a period a second each.
  void rest();
  void keep_planning();
  void stop();

  const std::string& last_refusal() const { return refusal_; }  // once stopped
  std::uint64_t plans() const { return plans_; }

 private:
  std::string image_;
  std::vector<Joined> sessions_;
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> plans_{0};
  std::string refusal_;

  bool send_period(const Joined& session) const;
  bool receive_plan(const Joined& session);
};

}  // namespace terrace::tests::scale
