// A step that is a chain: layers one after the other, a loss, and the layers' backward operations in reverse.
//
//     0 ── a1 ── a2 ── … ── aL ── loss          a   outputs, kept or made again
//                                   │
//     g1 ── g2 ── … ── gL ──────── gL+1         g   gradients, each read by the next backward operation only
//
// Layer l makes a[l] from a[l - 1]. Its backward operation reads a[l], a[l - 1] and g[l + 1] and makes g[l].
// g[L + 1] is what the loss makes from a[L]. Constants may be read by anybody. The operations stand in this
// order, each makes one storage, and the step keeps the last one only.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/planner/recompute/step.h"

namespace terrace::planner::recompute {

struct Chain {
  struct Layer {
    std::uint32_t forward = nothing, backward = nothing;  // operations
    std::uint32_t output = nothing, gradient = nothing;   // storages
  };
  // layers[l] for l = 1 to L. layers[0] is the begin and has nothing; of layers[L + 1], the loss, `forward`
  // and `gradient` count.
  std::vector<Layer> layers;

  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(layers.size()) - 2; }
};

// Refused with the operation that does not fit the picture, or for more than 200 layers.
Result<Chain> chain_of(const Step& step);

}  // namespace terrace::planner::recompute
