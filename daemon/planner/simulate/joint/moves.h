// Changes to a plan, aimed at what its simulated step waits for and computes twice.
//
// An operation that waited has a cause on a link: the transfer that it waited for, and before that one the
// others without a pause between, back to when the link was idle:
//
//     link in   ....aaaaaabbbbcccccccc           a, b or c less, or a before the pause, and it would not
//     compute   1111122222233333333----4444      have waited
//
// So a change takes one transfer of that chain and lets its tensor stay, be made again, come earlier, or come
// coded, or from another tier, or through one (staged), or be staged back earlier. Where memory was short,
// something that lay there leaves, or comes later. What is computed again stays, moves, or is computed again
// earlier together with others. What a codec worked on goes without it. A few changes are blind. Steps for
// which the machine has no codec have the changes that they had before there were any: nothing more is drawn.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "daemon/planner/simulate/joint/drafts.h"

namespace terrace::planner::joint {

class Moves {
 public:
  // The drafts must outlive it.
  Moves(const Drafts& drafts, std::uint64_t seed) : drafts_(drafts), random_(seed) {}

  // What the next changes are aimed at. The report has a timeline, and must live until the next look.
  void look(const SimulationReport& report);
  // `count` changes, each aimed anew.
  void change(std::uint32_t count, Choices* choices);

 private:
  struct Aim {
    enum class At : std::uint8_t { arrival, room, work } at = At::arrival;
    std::uint32_t position = 0;
    std::uint32_t tensor = 0;  // work: what is made again, or was coded
    double from_us = 0, until_us = 0;
    double sum_us = 0;  // of all aims up to this one
  };

  const Drafts& drafts_;
  std::mt19937_64 random_;
  const SimulationReport* report_ = nullptr;
  std::vector<Aim> aims_;
  std::vector<std::vector<const Transfer*>> in_;  // by tier, as they end
  double lost_us_ = 0;

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  double fraction() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  void aim(const OpTiming& timing, std::uint32_t position);
  void add(Aim aim, double lost_us);
  std::uint32_t position_of(double time_us) const;
  const Transfer* last_arrival(const Aim& aim) const;
  const Transfer* back_along(const Transfer* last);

  void change_one(Choices* choices);
  void relieve_link(const Aim& aim, Choices* choices);
  void relieve_memory(const Aim& aim, Choices* choices);
  void relieve_work(const Aim& aim, Choices* choices);
  bool recode(Choice* c, std::uint64_t one_in);
  void anywhere(Choices* choices);
  void turn(Choices* choices, std::size_t gap);
  void leave(Choices* choices, std::size_t gap);
  void stage(Choice* c);
  std::size_t covering(const Choices& choices, std::uint32_t position);
};

}  // namespace terrace::planner::joint
