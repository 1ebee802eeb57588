// What a greeting is promised of each tier, and what of a job stays while other processes of it come and go:
// what is on record of an earlier daemon, limits and weights.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "daemon/base/unique_fd.h"
#include "daemon/gpu/gpu_shares.h"
#include "daemon/pools/nvm_pool.h"
#include "daemon/pools/pool_file.h"
#include "daemon/pools/pools.h"
#include "daemon/promises/claims.h"
#include "daemon/sessions/session.h"
#include "daemon/sessions/turns.h"
#include "daemon/shares/arbiter.h"
#include "daemon/writes/writes.h"
#include "liballoc/wire/protocol.h"

namespace terrace::daemon {

// Who has what of each tier.
struct Shares {
  Arbiter dram;
  GpuShares gpu{};
  Pools pools;
  std::optional<NvmPool> nvm{};
  Writes writes{};
};

struct Admission {
  std::optional<Refusal> refusal;
  Session* session = nullptr;  // else; the registry's
  UniqueFd pool_fd;            // a new pool, to be passed on
  UniqueFd nvm_fd;             // likewise, a file on NVM
  std::string pool_problem;    // why there is none though one was wanted
  bool was_cut = false;        // it is back, and less is left, or on record, than it says that it had
  bool is_expected = true;     // else it says that it is back, and nothing is on record
};

// Of a greeting.
JobKey job_of(const wire::Hello& hello, uid_t uid);
bool comes_back(const wire::Hello& hello);
bool is_gpu_heap(const wire::Hello& hello);
std::string program_of(const wire::Hello& hello);

class Admissions {
 public:
  // Both of them the registry's.
  Admissions(const Sessions& sessions, Shares& shares) : sessions_(sessions), shares_(shares) {}

  // See Registry::expect().
  void expect(Claims claims, std::uint64_t until_ns);
  // Jobs of before have had their time.
  void look_at_clock(std::uint64_t now_ns);
  // What jobs of before may still come back for.
  Promises left() const { return claims_ ? claims_->left() : Promises(); }
  bool is_on_record(const JobKey& job) const { return !claims_ || claims_->has(job); }
  bool is_here(const JobKey& job) const;

  // What the greeting gets under the number of a session that is not there yet; `pool` is the file that came
  // along, if one did. After a refusal leave() takes back what was promised.
  std::optional<Refusal> promise(SessionId id, const JobKey& job, const wire::Hello& hello,
                                 const std::optional<PoolFile>& pool, Admission* admission);
  // A new pool's file; where none can be made, there is no pool.
  void open_pool(const Session& session, Admission* admission);
  void give_nvm(Session& session, Admission* admission);
  // See Registry::hold_nvm().
  std::optional<Refusal> hold_nvm(Session& session, const wire::NvmHeld& held,
                                  const std::optional<PoolFile>& file);
  // Two processes with one file would write over each other's data. A process that lost its connection may be
  // back before we know that it is gone.
  std::optional<Refusal> check_pool_is_free(const FileId& file, const Peer& peer) const;
  // The session is no more, or never was. With a job's last one its limits of tiers go.
  void leave(SessionId id, const JobKey& job);

 private:
  wire::Hello believed(const JobKey& job, const wire::Hello& hello);
  std::optional<Refusal> promise_dram(SessionId id, const JobKey& job, const wire::Hello& hello,
                                      Admission* admission);
  std::optional<Refusal> promise_gpu(SessionId id, const JobKey& job, const wire::Hello& hello,
                                     Admission* admission);
  std::optional<Refusal> promise_pool(SessionId id, const JobKey& job, const wire::Hello& hello,
                                      const std::optional<PoolFile>& pool, Admission* admission);
  std::optional<Refusal> adopt_pool(SessionId id, const JobKey& job, const wire::Hello& hello,
                                    const std::optional<PoolFile>& pool, Admission* admission);
  void give_terms(const JobKey& job, const wire::Hello& hello);
  void give_tier_limits(const JobKey& job);

  const Sessions& sessions_;
  Shares& shares_;
  std::optional<Claims> claims_;
  std::uint64_t expected_until_ns_ = 0;
};

}  // namespace terrace::daemon
