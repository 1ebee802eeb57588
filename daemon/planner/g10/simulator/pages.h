// Where every page is: runs of neighbouring pages of one tensor in the same state.
//
// Pages move in the order of their addresses, so a queue, the GPU's FIFO list and a tensor are all short
// lists of runs, and a tick's batch is arithmetic on the fronts of two runs. The artifact keeps an entry per
// page (450 million for SENet154-1024, 28 GB); the runs of the same workload take a few MB.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <vector>

#include "daemon/planner/g10/workload.h"

namespace terrace::planner::g10 {

enum class Place : std::uint8_t { absent, ssd, host, gpu };

// What a page waits for. `none`: it is not in transfer. The first three are page faults.
enum class Wait : std::uint8_t {
  none,
  fault_ssd,
  fault_host,
  fault_alloc,
  evict_ssd,
  evict_host,
  prefetch_ssd,
  prefetch_host,
  prealloc
};
inline constexpr std::size_t wait_count = 9;

inline constexpr std::uint32_t no_run = 0xffffffffU;

struct Run {
  std::uint32_t tensor = 0;
  std::uint32_t pages = 0;
  std::uint32_t before = no_run;  // neighbours in the tensor, by address
  std::uint32_t after = no_run;
  std::uint32_t older = no_run;  // neighbours in the FIFO list, if `place` is gpu and `wait` is none
  std::uint32_t newer = no_run;
  Place place = Place::absent;
  Wait wait = Wait::none;
};

class PageStore {
 public:
  PageStore(const Workload& workload, const G10Machine& machine);

  const Run& run(std::uint32_t id) const { return runs_[id]; }
  std::uint32_t first_run(std::uint32_t tensor) const { return tensors_[tensor].first; }
  std::uint32_t oldest() const { return oldest_; }
  std::uint32_t front(Wait wait) const;
  bool empty(Wait wait) const { return queues_[static_cast<std::size_t>(wait)].empty(); }
  bool faults() const {
    return !empty(Wait::fault_ssd) || !empty(Wait::fault_host) || !empty(Wait::fault_alloc);
  }
  const std::deque<std::uint32_t>& queue(Wait wait) const { return queues_[static_cast<std::size_t>(wait)]; }
  bool idle() const;
  std::uint64_t gpu_free() const { return gpu_pages_ - gpu_used_; }
  std::uint64_t host_free() const { return host_pages_ - host_used_; }

  // Pages in transfer of the tensors that the running kernel needs.
  std::uint64_t awaited() const { return awaited_; }
  bool needed(std::uint32_t tensor) const { return tensors_[tensor].needed; }
  void set_needed(const std::vector<std::uint32_t>& tensors);

  // Moves the first `pages` pages of a run into another state; they join the run before them where that one
  // is in the same state and its last page came just before. The rest keeps its id. Returns the run that they
  // are in.
  std::uint32_t move(std::uint32_t id, std::uint32_t pages, Place place, Wait wait);

 private:
  struct TensorPages {
    std::uint32_t first = no_run;
    std::uint64_t in_transfer = 0;
    bool needed = false;
  };

  std::deque<std::uint32_t>& queue_of(Wait wait) { return queues_[static_cast<std::size_t>(wait)]; }
  std::uint32_t new_run();
  void count(const Run& from, std::uint32_t pages, Place place, Wait wait);
  bool joins(const Run& candidate, std::uint32_t id, Place place, Wait wait) const;
  void detach(std::uint32_t id);
  void attach(std::uint32_t id, Place place, Wait wait);
  void unlink(std::uint32_t id);
  std::uint32_t split_front(std::uint32_t id, std::uint32_t pages);
  void absorb_next(std::uint32_t id);

  std::vector<Run> runs_;
  std::vector<std::uint32_t> spare_;
  std::vector<TensorPages> tensors_;
  std::vector<std::uint32_t> needed_;
  std::array<std::deque<std::uint32_t>, wait_count> queues_;
  std::uint32_t oldest_ = no_run;
  std::uint32_t newest_ = no_run;
  std::uint64_t gpu_pages_;
  std::uint64_t host_pages_;
  std::uint64_t gpu_used_ = 0;
  std::uint64_t host_used_ = 0;
  std::uint64_t awaited_ = 0;
};

}  // namespace terrace::planner::g10
