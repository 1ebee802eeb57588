// Plans periods beside the daemon's loop: one thread, at low priority, that never holds the loop up.
//
//   loop ── ask() ──▶ waiting, by user ──▶ thread: read, open, plan ── results(), event_fd() ──▶ loop
//
// Users have turns, and of a user who asked first. A session has one request at a time: a newer one replaces
// the older one, which is no longer planned where that can be stopped. What is planned may take
// planning_ns; of more than most_waiting requests the newest is refused.
//
// The images of periods stay in their jobs' memory until their turn comes; here there is one at a time.
// The thread begins with the first request, and the destructor waits for it.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/base/unique_fd.h"
#include "daemon/planning/period_planner.h"
#include "daemon/planning/sealed_file.h"
#include "daemon/shares/arbiter.h"

namespace terrace::daemon {

struct PlanRequest {
  SessionId session = 0;
  uid_t uid = 0;
  std::uint32_t phase = 0;
  std::uint64_t period_hash = 0;
  PeriodFile file;
  PlanSettings settings;
};

struct PlanResult {
  SessionId session = 0;
  std::uint32_t phase = 0;
  std::uint64_t period_hash = 0;
  std::uint64_t budget_bytes = 0;  // that it was planned for
  std::string policy;              // empty where the period could not be opened
  std::string refusal;             // why there is no plan; empty: there is one
  PeriodPlan plan;                 // its image is in the file
  UniqueFd file;
  std::uint64_t image_bytes = 0;
};

class PlanningThread {
 public:
  static constexpr std::uint64_t planning_ns = 2'000'000'000;  // of one period
  static constexpr std::size_t most_waiting = 256, most_waiting_of_user = 64;
  static constexpr int niceness = 10;

  PlanningThread();
  ~PlanningThread();
  PlanningThread(const PlanningThread&) = delete;

  // "" or why it is not planned, as a sentence without a full stop.
  std::string ask(PlanRequest request);
  // The job has gone: nobody waits for its plans any more.
  void forget(SessionId session);

  int event_fd() const { return event_.get(); }  // readable while there are results
  std::vector<PlanResult> results();

 private:
  void work();
  std::optional<PlanRequest> next(std::unique_lock<std::mutex>& lock);
  void plan(const PlanRequest& request);
  void plan_opened(const PlanRequest& request, const wire::PeriodView& period);
  void report(const PlanRequest& request, PlanResult result);
  // Takes the session's request out of those that wait; its file is closed by the thread.
  void take_out(SessionId session);
  std::size_t waiting() const;

  UniqueFd event_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uid_t, std::deque<PlanRequest>> waiting_;  // none is empty
  uid_t last_user_ = 0;
  SessionId planned_ = 0;  // session whose request is being planned; 0: none's
  std::vector<PlanRequest> given_up_;
  std::vector<PlanResult> results_;
  bool stopping_ = false;
  std::atomic<bool> give_up_ = false;  // what is being planned
  std::thread thread_;
};

}  // namespace terrace::daemon
