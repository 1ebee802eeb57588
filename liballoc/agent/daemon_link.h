// The daemon's word: what it grants replaces the environment's figures, as it knows what other jobs were
// granted; and it asks for memory that nobody uses.
//
// The agent's: connect() without the gate, as it waits for an answer, follow() with it.
#pragma once

#include <cstdint>

#include "liballoc/agent/budget.h"
#include "liballoc/agent/client/client.h"
#include "liballoc/agent/pool/pool_tier.h"
#include "liballoc/base/availability.h"
#include "liballoc/heap/guarded_pager.h"
#include "liballoc/heap/recycled_memory.h"
#include "liballoc/paging/learning/period_sink.h"
#include "liballoc/wire/period/policy_names.h"

namespace terrace::liballoc {

class DaemonLink final : public PeriodSink {
 public:
  constexpr DaemonLink(const GuardedPager& guarded, RecycledMemory& recycled, PoolTier& pool, Budget& budget,
                       Availability& availability)
      : guarded_(guarded), recycled_(recycled), pool_(pool), budget_(budget), availability_(availability) {}
  ~DaemonLink() = default;

  // Greets the daemon, if the options name one, and takes its grant. A refusal makes the pager unavailable.
  void connect();
  // Whether one was named: it may be away at the moment.
  bool is_used() const { return is_used_; }
  Client& client() { return client_; }
  // Reads what the daemon sent, and does it.
  void follow(std::uint64_t now_ns);

  // Not of a job that is to be reactive: nothing is learned of its periods.
  bool wants_periods() const override {
    return is_used_ && guarded_.options.policy != wire::reactive_policy &&
           client_.has_feature(wire::feature_schedules);
  }
  const char* policy() const override { return guarded_.options.policy; }
  int send(const LearnedPeriod& period) override;

  // In a forked child, which is no session of the daemon's.
  void reset_in_child();

 private:
  int greet();
  void take_grant();
  void take_write_lease();
  void take_plan();
  void trim();

  const GuardedPager& guarded_;
  RecycledMemory& recycled_;
  PoolTier& pool_;
  Budget& budget_;
  Availability& availability_;
  bool is_used_ = false;
  Client client_;
};

}  // namespace terrace::liballoc
