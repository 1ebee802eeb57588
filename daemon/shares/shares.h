// How one amount is divided among several who want some of it. Pure arithmetic; the arbiter says of whom.
#pragma once

#include <cstdint>
#include <vector>

namespace terrace::daemon {

// Max-min fair shares of `whole`: nobody gets more than it wants while somebody else has less than that; what
// nobody wants is shared equally. The shares sum to `whole`.
std::vector<std::uint64_t> fair_shares(std::uint64_t whole, const std::vector<std::uint64_t>& wanted);

// What somebody has for certain, and what he is to have of what nobody has.
struct Holding {
  std::uint64_t bytes = 0;
  bool borrows = false;      // takes part in what nobody has
  std::uint32_t weight = 1;  // above 0
  // Holding and loan together. What is held for certain beyond `most` stays.
  std::uint64_t least = 0;
  std::uint64_t most = ~std::uint64_t{0};
};

// What is lent to each out of `whole` less what all hold. Who has least for its weight is lent first, until
// it has as much as the next one: so a borrower has, holding and loan together, a part of the whole in
// proportion to its weight or more, unless the holdings, guarantees and limits say otherwise. Where the
// guarantees (`least`) are more than is left, none counts. The loans sum to what is left, less what the
// limits forbid, and less fewer bytes than the borrowers' weights sum to.
//
//   holdings  4 2 0, whole 12     loans  0 2 4     4+0  2+2  0+4
//   weights   1 3,   whole 12     loans  3 9
std::vector<std::uint64_t> loans(std::uint64_t whole, const std::vector<Holding>& holders);

}  // namespace terrace::daemon
