// Transfers between two far tiers, which pass by tier 0: what waits for each direction of each far route, and
// what is under way there.
//
// They move in the order in which they were asked for; what is not there yet, or has no room where it goes,
// is passed by. A tensor has at most one that waits.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "daemon/planner/machine.h"
#include "daemon/planner/simulate/store/copies.h"
#include "daemon/planner/simulate/store/network.h"
#include "daemon/planner/simulate/store/recording.h"
#include "daemon/planner/simulate/store/room.h"
#include "daemon/planner/simulate/store/tensor_state.h"

namespace terrace::planner {

// Changes states, room, copies, network and recording, which must outlive it.
class Stages {
 public:
  Stages(const Machine& machine, std::vector<TensorState>& states, Room& room, Copies& copies,
         Network& network, Recording& recording);

  bool is_far(std::uint32_t lane) const { return lane >= first_lane_; }

  // Where the tensor lies, or will lie once what it is in has ended.
  std::uint32_t source(std::uint32_t tensor) const;
  // The tensor, which is away or leaves tier 0, is to move on to `tier` from its source. Where it is
  // there already, this calls off what waits. Answers whether there is a way.
  bool ask(std::uint32_t tensor, std::uint32_t tier);
  void call_off(std::uint32_t tensor);  // what waits, if anything does
  void abort(std::uint32_t tensor);     // what is under way, if anything is

  // Starts what can start, on lanes that are idle. `number` counts the starts of all transfers.
  void start_ready(std::uint32_t* number);
  void finish(std::uint32_t lane);
  // Of what was under way on the lane, which ends now.
  void record(std::uint32_t lane, bool aborted);

 private:
  struct Request {
    std::uint32_t tensor = 0, from = 0, tier = 0;
    std::uint64_t stored = 0;
    double queued_us = 0;
  };
  struct UnderWay {
    Request request;
    std::uint32_t number = 0;  // of the start
    double start_us = 0;
  };

  std::uint32_t lane_of(FarWay way) const { return first_lane_ + Network::lane(way.route, way.in); }
  bool can_start(const Request& request) const;
  void start(std::uint32_t lane, const Request& request, std::uint32_t number);

  const Machine& machine_;
  std::vector<TensorState>& states_;
  Room& room_;
  Copies& copies_;
  Network& network_;
  Recording& recording_;
  std::uint32_t first_lane_;
  std::vector<std::deque<Request>> waiting_;  // by lane, from the first far one on
  std::vector<UnderWay> under_way_;           // likewise
};

}  // namespace terrace::planner
