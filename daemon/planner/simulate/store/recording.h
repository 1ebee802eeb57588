// The timeline of the reported step, if one is asked for. Its time 0 is the step's begin.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/simulate/simulator.h"
#include "daemon/planner/simulate/store/network.h"

namespace terrace::planner {

class Recording {
 public:
  // Of a simulation with so many tensors. The network, whose time it is, must outlive it.
  Recording(const Network& network, std::size_t tensors) : network_(network), tensors_(tensors) {}

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

  // Memory of tier 0: of a tensor, of its coded form, or with Stay::of_a_run of the run, all of which ends at
  // once. What `lay` there before is told first.
  void lay(std::uint32_t tensor, bool coded, std::uint64_t bytes);
  void comes(std::uint32_t tensor, bool coded, std::uint64_t bytes);
  void goes(std::uint32_t tensor, bool coded);

  void end(SimulationReport* report);

 private:
  static constexpr std::size_t none = ~std::size_t{0};

  struct Numbered {
    std::uint32_t number = 0;
    Transfer transfer;
  };

  const Network& network_;
  std::size_t tensors_;
  bool on_ = false;
  double base_us_ = 0;
  std::uint32_t runs_ended_ = 0;
  std::vector<Residence> start_;
  std::vector<Numbered> transfers_;
  std::vector<MemorySample> samples_;
  std::vector<CopyUse> copies_;
  std::vector<Stay> stays_;
  std::vector<std::size_t> open_;         // per tensor, then per coded form: its stay that goes on, or none
  std::vector<std::size_t> open_of_run_;  // those of the run
  std::uint32_t changes_ = 0;             // of tier 0

  void open(std::uint32_t tensor, bool coded, std::uint64_t bytes);
  void close(std::size_t stay);
  double since_begin_us() const { return network_.now_us() - base_us_; }
};

}  // namespace terrace::planner
