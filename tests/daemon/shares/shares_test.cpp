// Dividing one amount among several.
#include "daemon/shares/shares.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "tests/units.h"

using namespace terrace::daemon;

namespace {

using terrace::tests::gib;
using Shares = std::vector<std::uint64_t>;

std::uint64_t sum(const Shares& shares) {
  return std::accumulate(shares.begin(), shares.end(), std::uint64_t{0});
}

Holding borrower(std::uint64_t bytes, std::uint32_t weight = 1) {
  Holding holding;
  holding.bytes = bytes;
  holding.borrows = true;
  holding.weight = weight;
  return holding;
}

Holding keeper(std::uint64_t bytes) {
  Holding holding;
  holding.bytes = bytes;
  return holding;
}

Holding bounded(Holding holding, std::uint64_t least, std::uint64_t most) {
  holding.least = least;
  holding.most = most;
  return holding;
}

}  // namespace

TEST_CASE("fair shares sum to the whole and starve nobody") {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    const std::uint64_t whole = random() % (64 * gib);
    Shares wanted(1 + random() % 9);
    for (auto& bytes : wanted) bytes = random() % (40 * gib);
    const auto shares = fair_shares(whole, wanted);
    REQUIRE(sum(shares) == whole);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      REQUIRE(shares[i] >= std::min(wanted[i], whole / wanted.size()));
  }
}

TEST_CASE("who has least is lent first") {
  CHECK(loans(12, {borrower(4), borrower(2), borrower(0)}) == Shares{0, 2, 4});
  CHECK(loans(12, {keeper(4), borrower(2), borrower(0)}) == Shares{0, 2, 4});
  CHECK(loans(12, {borrower(9), borrower(1)}) == Shares{0, 2});
  CHECK(loans(12, {keeper(4)}) == Shares{0});
  CHECK(loans(12, {borrower(9), borrower(9)}) == Shares{0, 0});
  CHECK(loans(12, {}) == Shares{});
}

TEST_CASE("loans sum to what is left, and lift nobody above one who has less") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 2000; ++round) {
    const std::uint64_t whole = random() % 1000;
    std::vector<Holding> holdings(1 + random() % 9);
    for (Holding& holding : holdings) {
      holding.bytes = random() % 200;
      holding.borrows = random() % 3 != 0;
    }
    const Shares lent = loans(whole, holdings);
    std::uint64_t left = whole, borrowers = 0, least = ~std::uint64_t{0};
    for (std::size_t i = 0; i < holdings.size(); ++i) {
      left = left > holdings[i].bytes ? left - holdings[i].bytes : 0;
      if (!holdings[i].borrows) continue;
      ++borrowers;
      least = std::min(least, holdings[i].bytes + lent[i]);
    }
    REQUIRE(sum(lent) <= left);
    if (borrowers != 0) REQUIRE(left - sum(lent) < borrowers);
    for (std::size_t i = 0; i < holdings.size(); ++i)
      if (lent[i] != 0) REQUIRE(holdings[i].bytes + lent[i] == least);
  }
}

TEST_CASE("loans follow weights, guarantees and limits") {
  CHECK(loans(12, {borrower(0, 1), borrower(0, 3)}) == Shares{3, 9});
  CHECK(loans(16, {borrower(4, 1), borrower(0, 3)}) == Shares{0, 12});
  CHECK(loans(12, {borrower(0), bounded(borrower(0), 0, 2)}) == Shares{10, 2});
  CHECK(loans(12, {borrower(0), borrower(0), bounded(borrower(0), 8, 12)}) == Shares{2, 2, 8});
  CHECK(loans(12, {bounded(borrower(0), 9, 12), bounded(borrower(0), 9, 12)}) == Shares{6, 6});  // too much
  CHECK(loans(12, {bounded(borrower(4), 0, 2), borrower(0)}) == Shares{0, 8});  // held already
  CHECK(loans(12, {bounded(keeper(2), 9, 12), borrower(0)}) == Shares{0, 10});
  constexpr std::uint64_t largest = ~std::uint64_t{0} - 1;
  CHECK(loans(largest, {borrower(0, 1000), borrower(largest, 1000)}) == Shares{0, 0});
}

TEST_CASE("no loan breaks a limit, or a guarantee that can be met") {
  std::mt19937_64 random(5);
  for (int round = 0; round < 4000; ++round) {
    const std::uint64_t whole = random() % 1000;
    std::vector<Holding> holdings(1 + random() % 9);
    std::uint64_t held = 0, guaranteed = 0, weights = 0;
    for (Holding& holding : holdings) {
      holding.bytes = random() % 100;
      holding.borrows = random() % 4 != 0;
      holding.weight = static_cast<std::uint32_t>(1 + random() % 5);
      holding.least = random() % 3 == 0 ? random() % 150 : 0;
      holding.most = random() % 3 == 0 ? holding.least + random() % 200 : holding.most;
      held += holding.bytes;
      if (!holding.borrows) continue;
      weights += holding.weight;
      guaranteed += holding.least > holding.bytes ? holding.least - holding.bytes : 0;
    }
    const Shares lent = loans(whole, holdings);
    const std::uint64_t left = whole > held ? whole - held : 0;
    REQUIRE(sum(lent) <= left);
    bool all_full = true;
    for (std::size_t i = 0; i < holdings.size(); ++i) {
      const Holding& holding = holdings[i];
      if (!holding.borrows) REQUIRE(lent[i] == 0);
      if (lent[i] != 0) REQUIRE(holding.bytes + lent[i] <= holding.most);
      if (guaranteed <= left && holding.borrows) REQUIRE(holding.bytes + lent[i] >= holding.least);
      all_full = all_full && (!holding.borrows || holding.bytes + lent[i] >= holding.most);
    }
    if (!all_full) REQUIRE(left - sum(lent) < weights);
  }
}
