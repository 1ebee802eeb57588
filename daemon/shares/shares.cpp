// See shares.h.
#include "daemon/shares/shares.h"

#include <algorithm>
#include <numeric>

#include "daemon/base/size.h"

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

namespace {

// To `level` for each unit of weight.
std::uint64_t loan_at(const Holding& holder, std::uint64_t level, bool are_guaranteed) {
  if (!holder.borrows) return 0;
  const std::uint64_t least = are_guaranteed ? holder.least : 0;
  const std::uint64_t weighted = level > holder.most / holder.weight ? holder.most : level * holder.weight;
  return minus(std::min(std::max(weighted, least), holder.most), holder.bytes);
}

bool fits(std::uint64_t room, const std::vector<Holding>& holders, std::uint64_t level, bool are_guaranteed) {
  for (const Holding& holder : holders) {
    const std::uint64_t loan = loan_at(holder, level, are_guaranteed);
    if (loan > room) return false;
    room -= loan;
  }
  return true;
}

}  // namespace

std::vector<std::uint64_t> loans(std::uint64_t whole, const std::vector<Holding>& holders) {
  std::uint64_t room = whole;
  for (const Holding& holder : holders) room = minus(room, holder.bytes);
  const bool are_guaranteed = fits(room, holders, 0, true);
  std::uint64_t level = 0, too_high = whole + 1;  // nobody is lent more than there is
  while (too_high - level > 1) {
    const std::uint64_t middle = level + (too_high - level) / 2;
    (fits(room, holders, middle, are_guaranteed) ? level : too_high) = middle;
  }
  std::vector<std::uint64_t> lent;
  lent.reserve(holders.size());
  for (const Holding& holder : holders) lent.push_back(loan_at(holder, level, are_guaranteed));
  return lent;
}

}  // namespace terrace::daemon
