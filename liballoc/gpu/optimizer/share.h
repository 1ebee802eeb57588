// What a daemon grants an optimizer: host memory, a pool file, and how much may be written to it. A session
// like an offload engine's (offload/session/engine_session.h), with states for tensors.
//
//   session's thread ── limits, wishes ──▶ atomics ──▶ whoever holds the optimizer, at the end of a step
//                    ◀───── Report ────── atomics ◀──
//
// A step may take seconds, and the daemon is to hear of the optimizer meanwhile; so neither waits for the
// other.
//
// open(), start() and stop() by the thread that opens and closes the optimizer; the rest by any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "liballoc/gpu/offload/session/engine_session.h"
#include "liballoc/gpu/optimizer/drive.h"
#include "liballoc/gpu/terrace_optimizer.h"

namespace terrace::liballoc::optimizer {

class Share {
 public:
  static constexpr std::uint64_t no_limit = ~std::uint64_t{0};

  Share() = default;
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;

  // Joins the daemon that the environment names, if it names one. 0, or the errno of a refusal with *reason.
  int open(const terrace_optimizer_config& config, std::string* reason);
  // What the optimizer goes without, and what helps.
  const std::string& warning() const { return session_.warning(); }
  Drive::Granted pool() const;
  // Whether the drive that the configuration asks for may not be: its file would be in plain text.
  bool forbids_drive() const { return forbids_drive_; }

  // From now on report() and settle() are called, ten times a second, by the session's thread; `drive` (may
  // be null) is told of the pool's limits. Throws std::system_error where there is no thread to be had.
  void start(Drive* drive, std::function<offload::Report()> report, std::function<void()> settle);
  // Neither is called any more.
  void stop() { session_.stop(); }

  // A daemon grants, now or before it went away.
  bool has_grant() const { return has_grant_; }
  std::uint64_t limit_bytes() const { return limit_bytes_; }
  // Counts grants: what failed under one may be tried again under the next.
  std::uint64_t grants() const { return grants_; }
  // `terrace trim` was asked for since the last call.
  bool take_trim() { return is_to_trim_.exchange(false); }

 private:
  void take_grant(const Grant& grant);

  offload::EngineSession session_;
  Drive* drive_ = nullptr;
  bool forbids_drive_ = false;
  std::atomic<bool> has_grant_ = false, is_to_trim_ = false;
  std::atomic<std::uint64_t> limit_bytes_ = no_limit, grants_ = 0;
};

}  // namespace terrace::liballoc::optimizer
