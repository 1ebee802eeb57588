// What is under way on each lane, and what the simulator knows of each request beside what the executor does.
//
// A lane (network.h) carries one transfer at a time; who waits for it, and who is next, is the executor's
// (liballoc/wire/schedule/executor.h), the same one that the pager runs on. A route is a link to it. A
// tensor has at most one request that waits: an entry of the schedule, or one of its two extra nodes, out and
// in, for what is asked for on demand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/planner/simulate/program.h"
#include "daemon/planner/simulate/store/network.h"
#include "daemon/planner/simulate/store/recording.h"
#include "liballoc/wire/schedule/executor.h"

namespace terrace::planner {

class Lanes {
 public:
  using Asked = wire::Executor::Asked;
  using Way = wire::Way;

  struct Request {
    std::uint32_t tensor = 0, tier = 0, codec = no_codec;
    std::uint64_t stored = 0;
    double queued_us = 0;
  };

  // Both must outlive it.
  Lanes(const wire::Schedule& schedule, const Program& program);

  wire::Executor& executor() { return executor_; }
  std::uint32_t on_demand(std::uint32_t tensor, Way way) const {
    return entries_ + 2 * tensor + (way == Way::in ? 1 : 0);
  }
  bool is_on_demand(std::uint32_t node) const { return node >= entries_; }

  // `urgent` counts for what is asked for on demand alone. A node that is under way keeps its request.
  Asked ask(std::uint32_t lane, std::uint32_t node, const Request& request, bool urgent);
  // The tensor's request that waits goes before the others from now on.
  void hurry(std::uint32_t tensor, double now_us);
  void call_off(std::uint32_t tensor);  // nothing if none waits

  // What would start next; null if nothing waits. Good until the next request.
  const Request* front(std::uint32_t lane) const;
  // Makes the front what is under way, from `now_us` on.
  const Request& start(std::uint32_t lane, double now_us);
  std::uint32_t* starts() { return &starts_; }  // so far; for who starts others
  bool started_on_demand(std::uint32_t lane) const { return is_on_demand(lanes_[lane].active); }
  const Request& under_way(std::uint32_t lane) const { return requests_[lanes_[lane].active]; }
  void done(std::uint32_t lane) { executor_.done(lanes_[lane].active); }
  void abort(std::uint32_t lane) { executor_.abort(lanes_[lane].active); }
  // What was under way has ended, or was ended early.
  void record(std::uint32_t lane, bool in, bool aborted, double end_us, Recording* recording) const;

  // Calls `see` for each request that waits and is not urgent, in no order; it may call that one off.
  template <class See>
  void for_waiting(std::uint32_t lane, See see) {
    const auto waiting = executor_.waiting(lane);
    waiting_.assign(waiting.begin(), waiting.end());
    for (const std::uint32_t node : waiting_)
      if (!executor_.is_urgent(node)) see(requests_[node]);
  }

 private:
  struct Lane {
    std::uint32_t active = 0;  // node
    std::uint32_t number = 0;  // of the start
    double start_us = 0;
  };

  static wire::ExecutorPlan plan_of(const wire::Schedule& schedule, const Program& program);

  std::uint32_t entries_;
  std::unique_ptr<std::byte[]> memory_;
  wire::Executor executor_;
  std::vector<Request> requests_;  // by node
  std::vector<Lane> lanes_;
  std::vector<std::uint32_t> waiting_;  // scratch of for_waiting()
  std::uint32_t starts_ = 0;
};

}  // namespace terrace::planner
