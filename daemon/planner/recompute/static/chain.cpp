#include "daemon/planner/recompute/static/chain.h"

#include <algorithm>

namespace terrace::planner::recompute {
namespace {

constexpr std::uint32_t most_layers = 200;

// What an operation reads beside constants, sorted.
std::vector<std::uint32_t> read_by(const Step& step, std::uint32_t operation) {
  std::vector<std::uint32_t> all;
  for (const std::uint32_t s : step.operations[operation].reads)
    if (!step.storages[s].constant()) all.push_back(s);
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<std::uint32_t> sorted_without_nothing(std::vector<std::uint32_t> storages) {
  std::erase(storages, nothing);
  std::sort(storages.begin(), storages.end());
  return storages;
}

// Numbers by position: every operation makes one storage.
Chain assumed(const Step& step) {
  const auto n = static_cast<std::uint32_t>(step.operations.size());
  const std::uint32_t layers = (n - 1) / 2;
  Chain chain;
  chain.layers.resize(layers + 2);
  for (std::uint32_t l = 1; l <= layers; ++l) {
    Chain::Layer& layer = chain.layers[l];
    layer = {l - 1, n - l, step.operations[l - 1].makes.front(), step.operations[n - l].makes.front()};
  }
  chain.layers[layers + 1] = {layers, nothing, nothing, step.operations[layers].makes.front()};
  return chain;
}

bool fits(const Step& step, const Chain& chain, std::uint32_t l) {
  const auto& layers = chain.layers;
  const bool forward = read_by(step, layers[l].forward) == sorted_without_nothing({layers[l - 1].output});
  if (layers[l].backward == nothing) return forward;
  return forward &&
         read_by(step, layers[l].backward) ==
             sorted_without_nothing({layers[l].output, layers[l - 1].output, layers[l + 1].gradient});
}

bool keeps_last_only(const Step& step) {
  const std::uint32_t last = step.operations.back().makes.front();
  for (std::uint32_t s = 0; s < step.storages.size(); ++s)
    if (!step.storages[s].constant() && step.storages[s].kept != (s == last)) return false;
  return true;
}

}  // namespace

Result<Chain> chain_of(const Step& step) {
  const std::size_t n = step.operations.size();
  if (n < 3 || n % 2 == 0) return refused<Chain>("no chain: the number of operations is even, or below 3");
  if (n / 2 > most_layers) return refused<Chain>("the chain has more than 200 layers");
  for (std::uint32_t i = 0; i < n; ++i) {
    const Operation& op = step.operations[i];
    if (op.makes.size() != 1 || op.workspace_bytes > 0)
      return refused<Chain>("no chain: operation " + std::to_string(i) +
                            " does not make one storage and no more");
  }
  if (!keeps_last_only(step)) return refused<Chain>("no chain: more is kept than what is made last");
  Chain chain = assumed(step);
  for (std::uint32_t l = 1; l < chain.layers.size(); ++l)
    if (!fits(step, chain, l))
      return refused<Chain>("no chain: layer " + std::to_string(l) + " reads otherwise");
  return ok(std::move(chain));
}

}  // namespace terrace::planner::recompute
