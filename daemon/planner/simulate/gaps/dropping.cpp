#include "daemon/planner/simulate/gaps/dropping.h"

#include <algorithm>
#include <optional>

namespace terrace::planner {

bool Dropping::drop(const Gap& gap, double most_us) {
  const std::optional<double> own_us = lineage_.price_us(gap);
  if (!own_us || *own_us > most_us) return false;
  double more_us = *own_us;
  lineage_.drop(gap);
  std::vector<Dropped> changed;
  const std::vector<std::uint32_t> dearer = dearer_with(gap);
  for (const std::uint32_t index : dearer) {
    const std::optional<double> price_us = lineage_.price_us(dropped_[index].gap);
    if (price_us) more_us += *price_us - dropped_[index].price_us;
    if (!price_us || more_us > most_us) {
      lineage_.keep(gap);
      return false;
    }
    changed.push_back({dropped_[index].gap, *price_us});
  }
  dropped_.push_back({gap, *own_us});
  note(static_cast<std::uint32_t>(dropped_.size() - 1));
  for (std::size_t i = 0; i < dearer.size(); ++i) {
    dropped_[dearer[i]] = changed[i];
    note(dearer[i]);
  }
  return true;
}

// Those whose chains begin with the content of this gap.
std::vector<std::uint32_t> Dropping::dearer_with(const Gap& gap) const {
  std::vector<std::uint32_t> indices;
  for (const std::uint32_t index : resting_on_[gap.tensor]) {
    const std::uint32_t at = dropped_[index].gap.to;
    if (gap.from < at && at <= gap.to) indices.push_back(index);
  }
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  return indices;
}

void Dropping::note(std::uint32_t index) {
  for (const std::uint32_t t : lineage_.rests_on(dropped_[index].gap)) resting_on_[t].push_back(index);
}

}  // namespace terrace::planner
