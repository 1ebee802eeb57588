// What it takes to make a tensor's content again at a later operation.
//
// The operation that wrote it whole runs once more there, and all that updated it in place since, if they
// give the same: each may be repeated, updates nothing else in place, and nothing else that it read has
// changed since. What it read may not be there. What was dropped over that operation, or has seen its last
// use, is made again before it, and so on; what was moved comes back earlier than planned. So the price of
// one content depends on what else was decided, as Capuchin says of its MSPS.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/planner/simulate/gaps/gaps.h"

namespace terrace::planner {

class Lineage {
 public:
  // The trace must outlive it.
  explicit Lineage(const wire::Trace& trace);

  // The content of this gap is not kept, or moved, from now on; or kept again.
  void drop(const Gap& gap) { dropped_[gap.tensor].push_back(gap); }
  void move(const Gap& gap, double in_us) { moved_[gap.tensor].push_back({gap, in_us}); }
  void keep(const Gap& gap);
  // What was made again before operation `from` on the way to something stays until before operation `to`; or
  // not after all.
  void hold(std::uint32_t tensor, std::uint32_t from, std::uint32_t to) {
    held_[tensor].push_back({from, to});
  }
  void release(std::uint32_t tensor) { held_[tensor].pop_back(); }  // what was held last
  void keep_all();                                                  // and holds nothing

  // Computing, and ways back that are not hidden, to have the content at the gap's end; nothing where it
  // cannot be made again there, or only by a long chain.
  std::optional<double> price_us(const Gap& gap) const;

  // What making the content again reads of what is kept or moved, each once.
  std::vector<std::uint32_t> rests_on(const Gap& gap) const;

  // What to make again before operation `at` for all dropped gaps that end there, in order of the operations
  // that make it. `held`, if given: what of it is held and need not be made, perhaps more than once.
  enum class Then : std::uint8_t {
    used,     // by the operation
    dropped,  // its own gap goes on
    dead      // no operation names it any more, but what is made again of it does
  };
  struct Again {
    std::uint32_t tensor = 0;
    Then then = Then::used;
  };
  std::vector<Again> again_at(std::uint32_t at, const std::vector<Gap>& ending,
                              std::vector<std::uint32_t>* held = nullptr) const;
  std::uint32_t last_use(std::uint32_t tensor) const { return last_use_[tensor]; }

 private:
  struct Moved {
    Gap gap;
    double in_us = 0;
  };
  struct Held {
    std::uint32_t from = 0, to = 0;
  };
  struct Need {
    std::uint32_t maker = 0, tensor = 0;
    std::vector<std::uint32_t> makers;  // with those that `maker` updated, the last one first
    bool operator<(const Need& other) const {
      return maker != other.maker ? maker < other.maker : tensor < other.tensor;
    }
  };

  std::optional<std::uint32_t> maker(std::uint32_t tensor, std::uint32_t at) const;
  bool repeatable(std::uint32_t op, std::uint32_t at, std::uint32_t tensor) const;
  std::vector<std::uint32_t> makers(std::uint32_t tensor, std::uint32_t at) const;
  bool dead(std::uint32_t tensor, std::uint32_t at) const;
  bool is_held(std::uint32_t tensor, std::uint32_t at) const;
  const Gap* dropped_over(std::uint32_t tensor, std::uint32_t at) const;
  double fetch_us(std::uint32_t tensor, std::uint32_t at) const;
  // Everything that must be made again at `at` to have the tensor, itself included; false if it cannot be.
  bool gather(std::uint32_t tensor, std::uint32_t at, std::vector<Need>* needs,
              std::vector<std::uint32_t>* held = nullptr) const;

  const wire::Trace& trace_;
  std::vector<std::vector<std::uint32_t>> writers_;  // by tensor: operations in order
  std::vector<std::uint32_t> last_use_;
  std::vector<std::vector<Gap>> dropped_;
  std::vector<std::vector<Moved>> moved_;
  std::vector<std::vector<Held>> held_;
};

}  // namespace terrace::planner
