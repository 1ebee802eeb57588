// Who waits for which lane, and what is under way on it.
//
// A lane (network.h) carries one transfer at a time and has two queues: urgent requests, which a run waits
// for, go before all others. A tensor has at most one request. A newer one or call_off() makes it void: it
// stays where it is with a ticket that is not the tensor's any more, and is skipped.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/simulate/run/program.h"
#include "daemon/planner/simulate/store/recording.h"

namespace terrace::planner {

class Lanes {
 public:
  struct Request {
    std::uint32_t tensor = 0, tier = 0, codec = no_codec;
    std::uint64_t stored = 0;
    double queued_us = 0;
    bool on_demand = false;
  };

  Lanes(std::uint32_t lanes, std::size_t tensors) : lanes_(lanes), tickets_(tensors, 0) {}

  void ask(std::uint32_t lane, const Request& request, bool urgent);
  void call_off(std::uint32_t tensor) { tickets_[tensor] = 0; }

  // What would start next; null if nothing waits. Good until the next call of this class.
  const Request* front(std::uint32_t lane);
  // Makes the front what is under way, from `now_us` on.
  const Request& start(std::uint32_t lane, double now_us);
  const Request& under_way(std::uint32_t lane) const { return lanes_[lane].active; }
  // What was under way has ended, or was ended early.
  void record(std::uint32_t lane, bool in, bool aborted, double end_us, Recording* recording) const;

  // Calls `see` for each request that waits and is not urgent; it may call them off.
  template <class See>
  void for_waiting(std::uint32_t lane, See see) const {
    for (const Waiting& w : lanes_[lane].normal.all)
      if (is_valid(w)) see(w.request);
  }

 private:
  struct Waiting {
    Request request;
    std::uint32_t ticket = 0;
  };
  struct Fifo {
    std::vector<Waiting> all;
    std::size_t head = 0;
  };
  struct Lane {
    Fifo urgent, normal;
    Request active;
    double start_us = 0;
    std::uint32_t number = 0;  // of the start
  };

  bool is_valid(const Waiting& w) const { return tickets_[w.request.tensor] == w.ticket; }
  bool skip_void(Fifo* fifo) const;  // whether anything is left

  std::vector<Lane> lanes_;
  std::vector<std::uint32_t> tickets_;  // per tensor: of its request; 0: none
  std::uint32_t last_ticket_ = 0, starts_ = 0;
};

}  // namespace terrace::planner
