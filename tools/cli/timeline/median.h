// The middle one of what was seen several times.
#pragma once

#include <algorithm>
#include <vector>

namespace terrace::cli {

// Of at least one. One that was seen: of an even number the smaller one of the middle two.
template <class T>
T median(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace terrace::cli
