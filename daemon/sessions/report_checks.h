// Who was told to give memory up and others wait for, and whether what sessions report can be true: once a
// round what they report is compared with what the kernel says, and those that do not give what they were
// told to are named.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/gpu/gpu_shares.h"
#include "daemon/pools/pools.h"
#include "daemon/sessions/journal.h"
#include "daemon/sessions/turns.h"
#include "daemon/shares/arbiter.h"

namespace terrace::daemon {

class ReportChecks {
 public:
  static constexpr std::uint64_t check_ns =
      1'000'000'000;                                       // between two checks of a process nobody waits for
  static constexpr std::size_t checks_per_round = 64;      // of some 30 us each
  static constexpr std::size_t idle_checks_per_round = 4;  // of processes that nobody waits for

  // All of them the registry's.
  ReportChecks(const Sessions& sessions, Arbiter& arbiter, GpuShares& gpu, Pools& pools, Journal& journal)
      : sessions_(sessions), arbiter_(arbiter), gpu_(gpu), pools_(pools), journal_(journal) {}

  // Budgets were announced: only who was told to give can be waited for.
  void budgets_were_told() { may_have_givers_ = true; }
  // Finds those that others wait for. Whether there may be some: room that they make is somebody's who is
  // owed it.
  bool find_givers();
  const std::vector<SessionId>& givers() const { return givers_; }
  // In turn, so that a round has a bound: those for which others wait in every round, all others now and
  // then.
  void check(std::uint64_t now_ns);
  // Ends a round of the arbiter's, which counts how long givers are waited for.
  void name_late_givers(std::uint64_t now_ns);

 private:
  std::uint64_t others_of_process(const Session& session) const;
  void check_report(Session& session, std::uint64_t now_ns);
  void name_late(const Session& session, std::uint64_t now_ns);
  void name_late_heap(const Session& session, std::uint64_t now_ns);
  void name_understated(const Session& session, std::uint64_t now_ns);

  const Sessions& sessions_;
  Arbiter& arbiter_;
  GpuShares& gpu_;
  Pools& pools_;
  Journal& journal_;
  std::vector<SessionId> givers_;  // as of the last round
  bool may_have_givers_ = false;
  SessionId last_checked_ = 0;
  SessionId last_giver_checked_ = 0;
};

}  // namespace terrace::daemon
