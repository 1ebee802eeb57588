// The timeline of the reported step, if one is asked for. Its time 0 is the step's begin.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/simulate/simulator.h"

namespace terrace::planner {

class Recording {
 public:
  void begin(double now_us, bool timeline);
  bool on() const { return on_; }

  // Each does nothing unless a timeline is recorded. Times of transfers are the simulation's.
  void start(const Residence& residence) {
    if (on_) start_.push_back(residence);
  }
  void sample(double now_us, const std::vector<std::uint64_t>& tier_bytes);
  // `number` grows with each start: of those that begin at one instant it is known which came first.
  void transfer(Transfer transfer, std::uint32_t number);
  void copy(CopyUse::Kind kind, std::uint32_t tensor, double now_us);
  void run_ended() { ++runs_ended_; }

  void end(SimulationReport* report);

 private:
  struct Numbered {
    std::uint32_t number = 0;
    Transfer transfer;
  };

  bool on_ = false;
  double base_us_ = 0;
  std::uint32_t runs_ended_ = 0;
  std::vector<Residence> start_;
  std::vector<Numbered> transfers_;
  std::vector<MemorySample> samples_;
  std::vector<CopyUse> copies_;
};

}  // namespace terrace::planner
