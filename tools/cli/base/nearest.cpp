#include "tools/cli/base/nearest.h"

#include <fmt/format.h>

#include <algorithm>

namespace terrace::cli {

namespace {

constexpr std::size_t longest_word = 64;  // no verb or option of ours is nearly as long

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t exchanged = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, exchanged});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  return cost[a.size()][b.size()];
}

std::string nearest_word(std::string_view given, const std::vector<std::string>& words) {
  if (given.size() > longest_word) return "";
  std::string best;
  std::size_t least = std::max<std::size_t>(given.size() / 3, 1) + 1;
  for (const std::string& word : words)
    if (const std::size_t distance = edit_distance(given, word); distance < least && distance < word.size()) {
      least = distance;
      best = word;
    }
  return best;
}

std::string did_you_mean(std::string_view given, const std::vector<std::string>& words) {
  const std::string best = nearest_word(given, words);
  return best.empty() ? ";" : fmt::format("; did you mean '{}'?", best);
}

}  // namespace terrace::cli
