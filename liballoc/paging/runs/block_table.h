// The blocks as the agent knows them: what it was told of each (block_queue.h), by the block's number. The
// heap's own records may be further on by then. Belongs to who holds the gate.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "liballoc/base/os.h"
#include "liballoc/heap/space/address_space.h"

namespace terrace::liballoc {

// How much of each run is used before it leaves.
class UseOfRuns {
 public:
  // A trial is over (policy/trial.h): what it found.
  void tried(bool is_sparsely_used) {
    constexpr unsigned most = 2 * sure_by_trials;
    sparse_ = static_cast<std::uint8_t>(!is_sparsely_used ? 0 : sparse_ < most ? sparse_ + 1U : sparse_);
  }
  // Touches alone, page behind page, have brought all of a run.
  void streamed_by_touches() {
    sparse_ = static_cast<std::uint8_t>(sparse_ - std::min<unsigned>(sparse_, 1));
  }
  bool is_sparse() const { return sparse_ >= sure_by_trials; }

 private:
  static constexpr unsigned sure_by_trials = 2;
  std::uint8_t sparse_ = 0;  // trials that found few pages touched of what would have come as a whole
};

struct KnownBlock {
  std::uint64_t call_site = 0;
  std::uint32_t first = 0;  // granule
  std::uint32_t granules = 0;
  std::uint16_t pins[2] = {};  // the block's own, of its first run and of its last if that is another
  std::uint8_t hints = 0;

  std::uint8_t scatter = 0;  // how sure it is that single pages of it are used

  // A single page of it was touched, or a stream went on or began.
  void touched(bool streams) {
    constexpr unsigned weight_of_a_stream = 4;
    if (!streams) scatter = static_cast<std::uint8_t>(scatter < 2 * sure ? scatter + 1U : scatter);
    if (streams)
      scatter = static_cast<std::uint8_t>(scatter - std::min<unsigned>(scatter, weight_of_a_stream));
  }
  bool is_scattered() const { return scatter >= sure; }
  static constexpr unsigned sure = 8;

  UseOfRuns use = {};

  std::uint32_t end() const { return first + granules; }
  std::uint32_t first_run() const { return first / granules_per_run; }
  std::uint32_t last_run() const { return (end() - 1) / granules_per_run; }
};

class BlockTable {
 public:
  int initialise(std::uint32_t most) {
    blocks_ = static_cast<KnownBlock*>(
        os::map_anonymous(std::size_t{most} * sizeof(KnownBlock), PROT_READ | PROT_WRITE));
    return blocks_ == nullptr ? ENOMEM : 0;
  }
  KnownBlock& operator[](std::uint32_t id) { return blocks_[id]; }
  const KnownBlock& operator[](std::uint32_t id) const { return blocks_[id]; }
  // Whether it takes a quarter of a budget of so many pages at most, or is no block.
  bool is_small(std::uint32_t id, std::uint64_t budget_pages) const {
    constexpr std::uint64_t pages_of_granule = granule_bytes / os::page_bytes;
    return id == 0 || blocks_[id].granules * pages_of_granule <= budget_pages / 4;
  }
  // Whether single pages of it are used; not of no block.
  bool is_scattered(std::uint32_t id) const { return id != 0 && blocks_[id].is_scattered(); }
  // Whether few pages of each run are used before it leaves.
  bool is_sparse(std::uint32_t id) const { return id != 0 && blocks_[id].use.is_sparse(); }

 private:
  KnownBlock* blocks_ = nullptr;  // number 0 is none
};

}  // namespace terrace::liballoc
