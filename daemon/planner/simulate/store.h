// Where every tensor lies, the queues of transfers, and the memory of the tiers, moving through time.
//
//   nowhere ──take──▶ here ──evict──▶ leaving ──▶ away ──fetch──▶ coming ──▶ here
//
// A tensor that came in has a clean copy where it came from (`copied`); evicting it there again needs no
// transfer, only that nothing uses it at the moment ("settle"). Requests of transfers wait in the FIFO of
// their lane; a request whose ticket is no longer the tensor's was called off and is skipped. Memory of the
// receiving side is taken when a transfer starts, that of the giving side is free when it ends, or, of a
// tensor that the current run reads meanwhile, when it is unpinned ("departed"). simulate.cpp drives this: it
// pins what a run names, says how many bytes are reserved for it, and lets time pass.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "daemon/planner/simulate/network.h"
#include "daemon/planner/simulate/program.h"
#include "daemon/planner/simulate/recording.h"
#include "daemon/planner/simulate/room.h"
#include "daemon/planner/simulate/simulator.h"
#include "daemon/planner/simulate/victim_heap.h"

namespace terrace::planner {

enum class Place : std::uint8_t { nowhere, here, coming, leaving, away };

struct TensorState {
  std::uint64_t stored = 0;  // bytes of the far copy, or of the coded one here
  std::uint64_t asked = 0;   // queued_out: bytes that the request will take in asked_tier
  std::uint32_t asked_tier = 0, asked_codec = no_codec;
  std::uint32_t tier = 0;  // of the far copy, or where it is going
  std::uint32_t codec = no_codec;
  std::uint32_t ticket = 0;  // of the request that waits, if queued
  Place place = Place::nowhere;
  bool queued_in = false, queued_out = false;
  bool asked_on_demand = false;  // the request that waits
  bool on_demand = false;        // the transfer under way
  bool coded = false;            // here, but to be decompressed
  bool pinned = false;           // named by the current run
  bool written = false;          // by the current run
  bool departed = false;         // away, and its memory here still in use
  bool copied = false;           // here, and `stored` bytes of it in `tier` are valid
  bool asked_clean = false;      // queued_out, to where its copy is, or will be once it has come
  bool needed = false;           // the current run waits for its fetch to start
};

class Store {
 public:
  Store(const wire::Trace& trace, const Machine& machine, const Program& program, Victims rule);

  const TensorState& at(std::uint32_t tensor) const { return states_[tensor]; }
  std::uint64_t bytes(std::uint32_t tensor) const { return trace_.tensors[tensor].bytes; }
  double now_us() const { return network_.now_us(); }

  // Puts a tensor into a tier without a transfer; of the first step's begin.
  void place_at_start(std::uint32_t tensor, std::uint32_t tier);

  // Requests. Codec and stored bytes are those of the far copy.
  void evict(std::uint32_t tensor, std::uint32_t tier, std::uint32_t codec, std::uint64_t stored,
             bool on_demand);
  void fetch(std::uint32_t tensor, bool on_demand);
  void call_off(std::uint32_t tensor);  // the request that waits, if any
  bool call_off_blocked();             // all evictions that their tier has no room for; whether there was one
  void stay(std::uint32_t tensor);     // ends a transfer out that is under way
  void release(std::uint32_t tensor);  // death or drop: wherever it lies
  void forget_copy(std::uint32_t tensor);                         // if it has one
  bool clean_in(std::uint32_t tensor, std::uint32_t tier) const;  // evicting it there moves nothing
  void take(std::uint32_t tensor);                                // memory here for one that lies nowhere
  void decoded(std::uint32_t tensor) { states_[tensor].coded = false; }

  // The current run's claims.
  void pin(std::uint32_t tensor, bool writes);
  void unpin(std::uint32_t tensor);
  void need(std::uint32_t tensor);  // it waits for this one's fetch: before others, and room is kept for it

  Room& room() { return room_; }
  const Room& room() const { return room_; }
  std::uint64_t leaving_bytes() const { return leaving_bytes_; }  // of all evictions asked for

  VictimHeap& victims() { return victims_; }
  void touch(std::uint32_t tensor, std::int64_t belady_key);  // used now; may become a victim
  // The nearest tier with room for an eviction; 0: none.
  std::uint32_t tier_with_room(std::uint64_t bytes) const;

  void start_ready();  // starts each transfer that can start now
  double next_us() const { return network_.next_us(); }
  void advance(double time_us);  // not beyond next_us()

  // The reported part.
  Recording& recording() { return recording_; }
  void begin_report(bool record_timeline);
  void end_report(SimulationReport* report);

 private:
  struct Request {
    std::uint32_t tensor = 0, ticket = 0, tier = 0, codec = no_codec;
    std::uint64_t stored = 0;
    double queued_us = 0;
    bool on_demand = false;
  };
  struct Copy {
    std::uint32_t tensor = 0, number = 0;
  };
  struct Fifo {
    std::vector<Request> requests;
    std::size_t head = 0;
  };
  struct Lane {
    Fifo urgent, normal;
    Request active;
    double start_us = 0;
    std::uint32_t number = 0;  // of the start
  };

  bool moves(std::uint32_t tensor) const { return bytes(tensor) > 0; }
  std::uint32_t lane_of(std::uint32_t tier, bool in) const {
    return Network::lane(program_.route_of_tier[tier], in);
  }
  Request* head(Fifo* fifo);
  bool start_head(std::uint32_t lane, Fifo* fifo);
  bool can_start(const Request& request, bool in) const;
  void start(std::uint32_t lane, const Request& request, bool in);
  void finish(std::uint32_t lane);
  void arrived(std::uint32_t tensor);
  void settle();  // evictions to clean copies, where nothing uses the tensor
  void leave_to_copy(std::uint32_t tensor);
  void queue_out(std::uint32_t tensor);
  bool may_give_way(std::uint32_t tensor) const {
    return states_[tensor].copied && !states_[tensor].asked_clean;
  }
  void let_copies_give_way(std::uint32_t tier, std::uint64_t bytes);
  void left(std::uint32_t tensor);
  void offer(std::uint32_t tensor);  // to the victims, if it may be one
  void record(std::uint32_t lane, bool aborted, double end_us);

  const wire::Trace& trace_;
  const Program& program_;
  Victims rule_;
  Network network_;
  VictimHeap victims_;
  std::vector<TensorState> states_;
  std::vector<std::int64_t> keys_;  // of the victims' order
  std::vector<Lane> lanes_;
  Room room_;
  std::vector<std::uint32_t> ended_;
  std::vector<std::deque<Copy>> copies_;     // per tier, oldest first; some are gone
  std::vector<std::uint32_t> copy_numbers_;  // per tensor: of its copy
  std::vector<std::uint32_t> clean_;         // asked to leave to their copies
  std::uint64_t leaving_bytes_ = 0;
  std::uint32_t tickets_ = 0;
  std::int64_t clock_ = 0;  // of touches and arrivals
  Recording recording_;
};

}  // namespace terrace::planner
