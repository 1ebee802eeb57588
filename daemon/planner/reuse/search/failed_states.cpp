#include "daemon/planner/reuse/search/failed_states.h"

#include <utility>

namespace terrace::planner::search {
namespace {

constexpr std::size_t first_slots = std::size_t{1} << 12;
constexpr std::size_t most_slots = std::size_t{1} << 20;
constexpr std::size_t probes = 8;

// splitmix64's finalizer (Steele et al., OOPSLA'14).
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace

StateHash hash_of(std::uint32_t buffer, std::int64_t offset) {
  const std::uint64_t x = mix(static_cast<std::uint64_t>(offset) + (buffer + 1ULL) * 0x9E3779B97F4A7C15ULL);
  const std::uint64_t y = mix(static_cast<std::uint64_t>(offset) * 0xD1B54A32D192ED03ULL + buffer + 1ULL);
  return {x, mix(x ^ (y << 1))};
}

FailedStates::FailedStates() : slots_(first_slots) {}

bool FailedStates::contains(const StateHash& state) const {
  for (std::size_t i = 0; i < probes; ++i)
    if (slots_[(state.low + i) & (slots_.size() - 1)] == state) return true;
  return false;
}

void FailedStates::insert(const StateHash& state) {
  if (used_ > slots_.size() / 2 && slots_.size() < most_slots) grow();
  for (std::size_t i = 0; i < probes; ++i) {
    StateHash& slot = slots_[(state.low + i) & (slots_.size() - 1)];
    if (slot == state) return;
    if (slot == StateHash{}) {
      slot = state;
      ++used_;
      return;
    }
  }
  slots_[(state.low + state.high % probes) & (slots_.size() - 1)] = state;
}

void FailedStates::grow() {
  const std::vector<StateHash> old = std::exchange(slots_, std::vector<StateHash>(slots_.size() * 4));
  used_ = 0;
  for (const StateHash& state : old)
    if (!(state == StateHash{})) insert(state);
}

}  // namespace terrace::planner::search
