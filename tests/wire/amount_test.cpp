// The same with a sentence for an error, for the command line and the daemon.
#include "liballoc/wire/amount.h"

#include <catch2/catch.hpp>

using namespace terrace::wire;

namespace {

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("AmountsAreSizesOrPercentages") {
  CHECK(*parse_amount("1.5g") == Amount{Amount::Unit::bytes, std::uint64_t{3} << 29});
  CHECK(*parse_amount("80%") == Amount::percent(80));
  CHECK(parse_amount("60.5%")->of(1000) == 605);
  CHECK(parse_amount("100%")->of(~std::uint64_t{0}) == ~std::uint64_t{0});
}

TEST_CASE("RefusalsNameTheInputAndWhatIsAccepted") {
  const std::string text = GENERATE("", "G", "2 G", "-1G", "2X", "0x10", "1e3", "nan", "4194304T", "1..5G");
  CAPTURE(text);
  const auto size = parse_size(text);
  REQUIRE_FALSE(size);
  CHECK(mentions(size.error, "'" + text + "'"));
  CHECK(mentions(size.error, text == "4194304T" ? "4194303T" : "1.5g"));
  CHECK(mentions(parse_amount(text).error, "60.5%"));
  CHECK(mentions(parse_amount("120%").error, "'120%' is not a percentage; write more than 0%"));
}

TEST_CASE("AmountsAreWrittenAsTheyAreRead") {
  for (const char* text : {"60%", "60.5%", "0.000000001%", "100%", "1048577B"}) {
    CAPTURE(text);
    CHECK(text_of(*parse_amount(text)) == text);
  }
}
