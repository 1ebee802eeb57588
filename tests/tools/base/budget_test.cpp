#include "tools/cli/base/budget.h"
#include "tests/units.h"

#include <catch2/catch.hpp>

using namespace terrace::cli;

namespace {

using terrace::tests::gib;
using terrace::tests::mib;
const Ceiling sixteen_gib{16 * gib, "this machine"};

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("PercentagesAreOfTheCeiling") {
  const auto budget = resolve_budget("--dram", "25%", sixteen_gib);
  REQUIRE(budget);
  CHECK(*budget == 4 * gib);
  CHECK(*resolve_budget("--dram", "100%", sixteen_gib) == 16 * gib);
  CHECK(*resolve_budget("--dram", "12.5%", sixteen_gib) == 2 * gib);
}

TEST_CASE("UnreadableBudgetsAreRefusedWithOptionInputAndWhatIsAccepted") {
  const auto budget = resolve_budget("--dram", "lots", sixteen_gib);
  REQUIRE_FALSE(budget);
  CHECK(mentions(budget.error, "--dram: 'lots' is not a size"));
  CHECK(mentions(budget.error, "1.5g"));
  CHECK(mentions(budget.error, "60.5%"));
}

TEST_CASE("WrongPercentagesAreRefused") {
  const char* text = GENERATE("0%", "-5%", "101%", "%", "60 %", "sixty%", "60%%", "nan%");
  CAPTURE(text);
  const auto budget = resolve_budget("--dram", text, sixteen_gib);
  REQUIRE_FALSE(budget);
  CHECK(mentions(budget.error, "--dram"));
}

TEST_CASE("BudgetPastTheCeilingIsRefusedWithWhatIsPossible") {
  const auto budget = resolve_budget("--limit", "17G", {16 * gib, "the cgroup /x"});
  REQUIRE_FALSE(budget);
  CHECK(mentions(budget.error, "--limit 17G"));
  CHECK(mentions(budget.error, "the cgroup /x"));
  CHECK(mentions(budget.error, "16384M"));
}

TEST_CASE("RefusalProposesASizeThatIsAccepted") {
  const Ceiling odd{16 * gib + 12345, "this machine"};
  const auto proposal = size_at_most(odd.bytes);
  CHECK(resolve_budget("--dram", proposal, odd));
}

TEST_CASE("BudgetBelowTheSmallestIsRefused") {
  CHECK_FALSE(resolve_budget("--dram", "31M", sixteen_gib));
  CHECK(resolve_budget("--dram", "32M", sixteen_gib));
  CHECK_FALSE(resolve_budget("--dram", "0.1%", {gib, "this machine"}));
}

TEST_CASE("ExactSizesReadBackExactly") {
  const std::uint64_t bytes = GENERATE(std::uint64_t{1}, mib - 1, mib, mib + 1, 3 * gib, 3 * gib + 4096);
  CHECK(*parse_size(exact_size(bytes)) == bytes);
}
