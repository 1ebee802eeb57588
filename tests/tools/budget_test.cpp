#include "tools/cli/budget.h"
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

TEST_CASE("SizesAreReadInPowersOf1024") {
  const auto [text, bytes] = GENERATE(table<const char*, std::uint64_t>({
      {"0", 0},
      {"4096", 4096},
      {"1B", 1},
      {"2K", 2048},
      {"2k", 2048},
      {"3KB", 3072},
      {"1KiB", 1024},
      {"1536MiB", 1536 * mib},
      {"2G", 2 * gib},
      {"1.5G", gib + gib / 2},
      {"2GiB", 2 * gib},
      {"1T", 1024 * gib},
  }));
  CAPTURE(text);
  const auto size = parse_size(text);
  REQUIRE(size);
  CHECK(*size == bytes);
}

TEST_CASE("WhatIsNoSizeIsRefusedAndNamed") {
  const std::string text = GENERATE("", "G", "2 G", " 2G", "2G ", "-1G", "+1G", "2X", "2GG", "2iB", "0x10",
                                    "1e3", "inf", "nan", "2G%", "60%", "..", "1..5G", "2G\n");
  CAPTURE(text);
  const auto size = parse_size(text);
  REQUIRE_FALSE(size);
  CHECK(mentions(size.error, "'" + text + "'"));
}

TEST_CASE("SizesPastAnyMachineAreRefused") {
  const char* text = GENERATE("9999999T", "99999999999999999999", "18446744073709551616", "1e", "8388608T");
  CAPTURE(text);
  CHECK_FALSE(parse_size(text));
}

TEST_CASE("PercentagesAreOfTheCeiling") {
  const auto budget = resolve_budget("--dram", "25%", sixteen_gib);
  REQUIRE(budget);
  CHECK(*budget == 4 * gib);
  CHECK(*resolve_budget("--dram", "100%", sixteen_gib) == 16 * gib);
  CHECK(*resolve_budget("--dram", "12.5%", sixteen_gib) == 2 * gib);
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
  CHECK_FALSE(resolve_budget("--dram", "63M", sixteen_gib));
  CHECK(resolve_budget("--dram", "64M", sixteen_gib));
  CHECK_FALSE(resolve_budget("--dram", "0.1%", {gib, "this machine"}));
}

TEST_CASE("ExactSizesReadBackExactly") {
  const std::uint64_t bytes = GENERATE(std::uint64_t{1}, mib - 1, mib, mib + 1, 3 * gib, 3 * gib + 4096);
  CHECK(*parse_size(exact_size(bytes)) == bytes);
}
