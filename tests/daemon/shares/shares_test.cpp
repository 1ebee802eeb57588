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
  CHECK(loans(12, {{4, true}, {2, true}, {0, true}}) == Shares{0, 2, 4});
  CHECK(loans(12, {{4, false}, {2, true}, {0, true}}) == Shares{0, 2, 4});
  CHECK(loans(12, {{9, true}, {1, true}}) == Shares{0, 2});
  CHECK(loans(12, {{4, false}}) == Shares{0});
  CHECK(loans(12, {{9, true}, {9, true}}) == Shares{0, 0});
  CHECK(loans(12, {}) == Shares{});
}

TEST_CASE("loans sum to what is left, and lift nobody above one who has less") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 2000; ++round) {
    const std::uint64_t whole = random() % 1000;
    std::vector<Holding> holdings(1 + random() % 9);
    for (Holding& holding : holdings) holding = {random() % 200, random() % 3 != 0};
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
