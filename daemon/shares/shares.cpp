// See shares.h.
#include "daemon/shares/shares.h"

#include <algorithm>
#include <numeric>

#include "daemon/size.h"

namespace terrace::daemon {

std::vector<std::uint64_t> fair_shares(std::uint64_t whole, const std::vector<std::uint64_t>& wanted) {
  std::vector<std::size_t> order(wanted.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return wanted[a] < wanted[b]; });
  std::vector<std::uint64_t> shares(wanted.size());
  std::uint64_t left = whole;
  for (std::size_t i = 0; i < order.size(); ++i) {
    shares[order[i]] = std::min(wanted[order[i]], left / (order.size() - i));
    left -= shares[order[i]];
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::uint64_t extra = left / (order.size() - i);
    shares[order[i]] += extra;
    left -= extra;
  }
  return shares;
}

std::vector<std::uint64_t> loans(std::uint64_t whole, const std::vector<Holding>& holders) {
  std::uint64_t left = whole;
  std::vector<std::uint64_t> borrowers;
  for (const Holding& holding : holders) {
    left = minus(left, holding.bytes);
    if (holding.borrows) borrowers.push_back(holding.bytes);
  }
  std::sort(borrowers.begin(), borrowers.end());
  // Raises the level of the first i, who are even, to that of the next one, while there is enough.
  std::uint64_t level = borrowers.empty() ? 0 : borrowers.front();
  for (std::size_t i = 1; i <= borrowers.size() && left != 0; ++i) {
    const std::uint64_t each = left / i;
    const std::uint64_t raise = i < borrowers.size() ? std::min(each, borrowers[i] - level) : each;
    level += raise;
    left -= raise * i;
    if (raise == each) break;
  }
  std::vector<std::uint64_t> lent;
  lent.reserve(holders.size());
  for (const Holding& holding : holders) lent.push_back(holding.borrows ? minus(level, holding.bytes) : 0);
  return lent;
}

}  // namespace terrace::daemon
