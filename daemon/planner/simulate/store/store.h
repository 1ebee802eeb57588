// Where every tensor lies, the queues of transfers, and the memory of the tiers, moving through time.
//
//   nowhere ──take──▶ here ──evict──▶ leaving ──▶ away ──fetch──▶ coming ──▶ here
//                                                 │  ▲
//                                                 stage (stages.h)
//
// Requests of transfers wait in their lanes (lanes.h); what came in has a clean copy where it came from
// (copies.h), and evicting it there again needs no transfer. Memory of the receiving side is taken when a
// transfer starts, that of the giving side is free when it ends, or, of a tensor that the current run reads
// meanwhile, when it is unpinned ("departed"). The run (run/runner.h) drives this: it pins what an operation
// names, says how many bytes are reserved for it, and lets time pass.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/simulate/program.h"
#include "daemon/planner/simulate/simulator.h"
#include "daemon/planner/simulate/store/copies.h"
#include "daemon/planner/simulate/store/lanes.h"
#include "daemon/planner/simulate/store/network.h"
#include "daemon/planner/simulate/store/recording.h"
#include "daemon/planner/simulate/store/room.h"
#include "daemon/planner/simulate/store/stages.h"
#include "daemon/planner/simulate/store/tensor_state.h"
#include "daemon/planner/simulate/store/victim_heap.h"

namespace terrace::planner {

class Store {
 public:
  Store(const wire::Trace& trace, const Machine& machine, const wire::Schedule& schedule,
        const Program& program, Victims rule);
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  const TensorState& at(std::uint32_t tensor) const { return states_[tensor]; }
  std::uint64_t bytes(std::uint32_t tensor) const { return trace_.tensors[tensor].bytes; }
  double now_us() const { return network_.now_us(); }

  // Puts a tensor into a tier without a transfer; of the first step's begin.
  void place_at_start(std::uint32_t tensor, std::uint32_t tier);

  // Requests, by an entry of the schedule or on demand. Codec and stored bytes are those of the far copy.
  void evict(std::uint32_t entry, std::uint32_t tensor, std::uint32_t tier, std::uint32_t codec,
             std::uint64_t stored);
  void fetch(std::uint32_t entry, std::uint32_t tensor);
  void evict_on_demand(std::uint32_t tensor, std::uint32_t tier, std::uint32_t codec, std::uint64_t stored) {
    evict(lanes_.on_demand(tensor, wire::Way::out), tensor, tier, codec, stored);
  }
  void fetch_on_demand(std::uint32_t tensor) { fetch(lanes_.on_demand(tensor, wire::Way::in), tensor); }
  // On to another far tier; nothing for what is in tier 0 and stays, or is wanted back. Answers whether there
  // is a way to it.
  bool stage(std::uint32_t tensor, std::uint32_t tier);
  std::uint32_t stage_source(std::uint32_t tensor) const { return stages_.source(tensor); }
  void call_off(std::uint32_t tensor);  // the requests that wait, if any
  bool call_off_blocked();             // all evictions that their tier has no room for; whether there was one
  void stay(std::uint32_t tensor);     // ends a transfer out that is under way
  void release(std::uint32_t tensor);  // death or drop: wherever it lies
  void take(std::uint32_t tensor);     // memory here for one that lies nowhere
  void decoded(std::uint32_t tensor) { states_[tensor].coded = false; }

  // The current run's claims.
  void pin(std::uint32_t tensor, bool writes);
  void unpin(std::uint32_t tensor);
  void need(std::uint32_t tensor);  // it waits for this one's fetch: before others, and room is kept for it

  wire::Executor& executor() { return lanes_.executor(); }
  Room& room() { return room_; }
  const Room& room() const { return room_; }
  Copies& copies() { return copies_; }

  VictimHeap& victims() { return victims_; }
  void touch(std::uint32_t tensor, std::int64_t belady_key);  // used now; may become a victim
  // Whether this codec holds the computation up.
  bool works_in_the_way(std::uint32_t codec) const {
    return codec != no_codec && !machine_.codecs[codec].overlaps;
  }
  // Whether nothing but one bit of each of its values is left, inside tier 0, where operations may read it.
  bool only_bits(std::uint32_t tensor) const {
    const TensorState& s = states_[tensor];
    return s.place == Place::away && s.codec != no_codec && machine_.codecs[s.codec].one_bit;
  }
  // What tier 0 gains once the tensor's eviction, which is asked for or under way, has ended.
  std::uint64_t frees(std::uint32_t tensor) const;
  // The nearest tier outside tier 0 with room for an eviction; 0: none.
  std::uint32_t tier_with_room(std::uint64_t bytes) const;

  void start_ready();  // starts each transfer that can start now
  double next_us() const { return network_.next_us(); }
  void advance(double time_us);  // not beyond next_us()

  // The reported part.
  Recording& recording() { return recording_; }
  void begin_report(bool record_timeline);
  void end_report(SimulationReport* report);

 private:
  bool moves(std::uint32_t tensor) const { return bytes(tensor) > 0; }
  std::uint32_t lane_of(std::uint32_t tier, bool in) const {
    return Network::lane(program_.route_of_tier[tier], in);
  }
  Lanes::Asked ask_in(std::uint32_t node, std::uint32_t tensor, std::uint32_t tier);
  bool can_start(const Lanes::Request& request, bool in) const;
  void start(std::uint32_t lane, bool in);
  void finish(std::uint32_t lane);
  void record_end(std::uint32_t lane);
  void arrived(std::uint32_t tensor);
  void queue_out(std::uint32_t tensor);
  void left(std::uint32_t tensor);
  void offer(std::uint32_t tensor);  // to the victims, if it may be one

  double most_rate(const Lanes::Request& request, bool in) const;

  const wire::Trace& trace_;
  const Machine& machine_;
  const Program& program_;
  Victims rule_;
  Network network_;
  VictimHeap victims_;
  std::vector<TensorState> states_;
  std::vector<std::int64_t> keys_;  // of the victims' order
  Lanes lanes_;
  Recording recording_;
  Room room_;
  Copies copies_;
  Stages stages_;
  std::vector<std::uint32_t> ended_;
  std::int64_t clock_ = 0;  // of touches and arrivals
};

}  // namespace terrace::planner
