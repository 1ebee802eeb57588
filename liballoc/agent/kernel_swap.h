// Has the kernel swap instead of us, under a cgroup's limit, for as long as the program gets on faster that
// way (swap_trials.h): the pager evicts nothing then and has no budget, so that the limit is met by the
// kernel alone. What lies on the tier comes from there when it is touched. The agent's, with the gate.
#pragma once

#include <cstdint>

#include "liballoc/agent/budget.h"
#include "liballoc/agent/swap/swap_state.h"
#include "liballoc/agent/swap/swap_trials.h"
#include "liballoc/agent/waiting/halt_poller.h"
#include "liballoc/paging/pager.h"
#include "liballoc/paging/transfers/workers.h"

namespace terrace::liballoc {

class KernelSwap {
 public:
  constexpr KernelSwap(Pager& pager, Budget& budget, const Workers& workers, const HaltPoller& poller)
      : pager_(pager), budget_(budget), workers_(workers), poller_(poller) {}

  // Where the budget follows a cgroup's limit, this one's.
  void open(const char* cgroup);
  void close();
  // Once a round; looks once a second.
  void look(std::uint64_t now_ns);

 private:
  bool may_swap() const;
  bool is_alone() const;
  std::uint64_t data_bytes() const;
  std::uint64_t away_bytes() const;
  std::uint64_t program_ns() const;
  void begin(std::uint64_t now_ns);
  void end(std::uint64_t now_ns);

  Pager& pager_;
  Budget& budget_;
  const Workers& workers_;
  const HaltPoller& poller_;
  SwapState swap_;
  SwapTrials trials_;
  std::uint64_t counted_ns_ = 0;  // until when the kernel's turn was counted
  bool told_ = false;
};

}  // namespace terrace::liballoc
