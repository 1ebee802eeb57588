// How one amount is divided among several who want some of it. Pure arithmetic; the arbiter says of whom.
#pragma once

#include <cstdint>
#include <vector>

namespace terrace::daemon {

// Max-min fair shares of `whole`: nobody gets more than it wants while somebody else has less than that; what
// nobody wants is shared equally. The shares sum to `whole`.
std::vector<std::uint64_t> fair_shares(std::uint64_t whole, const std::vector<std::uint64_t>& wanted);

// What somebody has for certain, and whether it takes part in what nobody has.
struct Holding {
  std::uint64_t bytes = 0;
  bool borrows = false;
};

// What is lent to each out of `whole` less what all hold. Who has least is lent first, until it has as much
// as the next one: so a borrower has, holding and loan together, an equal part of the whole or more, unless
// the holdings of others leave less. The loans sum to what is left, less at most one byte for each borrower.
//
//   holdings  4 2 0, whole 12     loans  0 2 4     4+0  2+2  0+4
std::vector<std::uint64_t> loans(std::uint64_t whole, const std::vector<Holding>& holders);

}  // namespace terrace::daemon
