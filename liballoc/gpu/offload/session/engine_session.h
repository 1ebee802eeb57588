// An engine's session with terraced: how much host memory it may take, a pool file and how much may be
// written to it, and what the daemon shows of it. An optimizer's, too (optimizer/share.h): to the daemon that
// is an engine whose tensors are states.
//
//   engine ── Report, ten times a second ──▶ thread ──── counters ───▶ segment ──▶ daemon
//      ◀── take_grant(), when it changes ────┘   ◀── budget, writes ── socket ◀──┘
//
// The process may have a session already, its pager's. This is another one, of the same job: the daemon
// divides the job's memory among both. Nothing waits for the daemon but open(), for 2 s at most. While it is
// away the last grant holds, and the thread looks for the next daemon. What a daemon sends can cost the
// engine memory, never bytes of a tensor: it decides only how much may be taken.
//
// open() and the destructor by the thread that opens and closes the engine; the rest says its own.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "liballoc/agent/client/client.h"
#include "liballoc/gpu/session/rounds.h"
#include "liballoc/gpu/session/session_options.h"
#include "tiers/adaptors/meter_adaptor.h"

namespace terrace::liballoc::offload {

// What an engine says of itself: host memory, its drive's file, and what went wrong since it was opened.
struct Report {
  std::uint64_t memory_bytes = 0;         // taken
  std::uint64_t memory_peak_bytes = 0;    // the most that was
  std::uint64_t spare_memory_bytes = 0;   // of what is taken, nothing is in it: kept for the next step
  std::uint64_t wanted_memory_bytes = 0;  // that it would use if it had it (memory_demand.h)
  std::uint64_t memory_limit_bytes = 0;   // that it may take, as it obeys now
  std::uint64_t drive_bytes = 0;          // in use
  std::uint64_t drive_written_bytes = 0;  // that the drive was asked to write
  std::uint64_t drive_read_bytes = 0;
  tiers::TierSpeeds drive_speeds = {};  // of late, by io_uring or pread
  std::uint64_t checksum_failures = 0;
  std::uint64_t io_errors = 0;
};

// Who joins, and what for.
struct Joining {
  std::string device;            // whose tensors: "cuda:0", "cpu"; an optimizer: "optimizer"
  std::string who = "engine";    // in what users read
  bool wants_pool = false;       // a file of the daemon's
  bool may_keep_a_file = false;  // it will make one itself where it has none of the daemon's
};

class EngineSession {
 public:
  // The engine. All are called by the session's thread and may take the engine's lock.
  struct Callbacks {
    std::function<Report()> report;
    std::function<void(const Grant& grant)> take_grant;
    std::function<void()> trim;  // what is spare is to go back to the kernel (`terrace trim`)
  };

  EngineSession() = default;
  EngineSession(const EngineSession&) = delete;
  EngineSession& operator=(const EngineSession&) = delete;
  // Leaves the daemon: what was granted is others' from then on, so that the engine's host memory has to be
  // gone before.
  ~EngineSession();

  // Joins the daemon. 0: joined, or alone, which warning() says; or the errno of a refusal with *reason.
  int open(const liballoc::gpu::SessionOptions& options, const Joining& joining, std::string* reason);
  // Begins to report and to obey. Throws std::system_error where there is no thread to be had. Once.
  void start(Callbacks callbacks);
  // Ends that: no callback is under way or called any more.
  void stop() { rounds_.stop(); }

  // As granted by open(), before start(); nullptr: there is no daemon that grants. The pool's file is the
  // session's.
  const Grant* grant() const { return is_joined_ ? &client_.grant() : nullptr; }
  bool has_pool() const { return is_joined_ && client_.grant().pool_fd >= 0; }
  // Pools are encrypted here and none was granted: a file that the user has not named a directory for would
  // hold in plain text what must not be (decision 053). Before start().
  bool forbids_files() const { return is_joined_ && client_.grant().encrypts_pools && !has_pool(); }
  // What the engine goes without, and what helps; "" where that is nothing. Before start().
  const std::string& warning() const { return warning_; }

 private:
  int join(const liballoc::gpu::SessionOptions& options, const Joining& joining, std::string* reason);
  std::string missing_pool(const Joining& joining) const;
  void follow();
  void publish();
  bool is_understood();

  Client client_;
  std::string socket_;
  std::string warning_;
  bool is_joined_ = false;
  Callbacks callbacks_;
  liballoc::gpu::Rounds rounds_;
};

}  // namespace terrace::liballoc::offload
