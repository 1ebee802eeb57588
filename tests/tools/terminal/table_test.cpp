#include "tools/cli/terminal/table.h"

#include <array>
#include <catch2/catch.hpp>

using namespace terrace::cli;
using nlohmann::json;

namespace {

constexpr std::array all{
    Column{"job", "JOB", Kind::text},
    Column{"used_bytes", "USED", Kind::bytes},
    Column{"read_bytes", "READ", Kind::bytes, true},
    Column{"stall_seconds", "STALL", Kind::seconds, true},
    Column{"pid", "PID", Kind::identity, false, false},
};

std::string names(const Columns& columns) {
  std::string text;
  for (const Column& column : columns) text += std::string(column.name) + " ";
  return text;
}

}  // namespace

TEST_CASE("ColumnsAreAddedWithPlusAndSelectedWithout") {
  CHECK(names(*choose_columns(all, {})) == "job used_bytes read_bytes stall_seconds ");
  CHECK(names(*choose_columns(all, {"+pid"})) == "job used_bytes read_bytes stall_seconds pid ");
  CHECK(names(*choose_columns(all, {"pid", "job"})) == "pid job ");
  CHECK(names(*choose_columns(all, {"+job"})) == "job used_bytes read_bytes stall_seconds ");
}

TEST_CASE("ColumnsGoByTheirHeadingsAsWell") {
  CHECK(names(*choose_columns(all, {"JOB", "used", "Pid"})) == "job used_bytes pid ");
  CHECK(names(*choose_columns(all, {"+pid", "+PID"})) == "job used_bytes read_bytes stall_seconds pid ");
}

TEST_CASE("HeadingOfTwoColumnsNamesNeither") {
  constexpr std::array twins{Column{"a", "USED", Kind::count}, Column{"b", "USED", Kind::count},
                             Column{"text", "", Kind::text}};
  CHECK_FALSE(choose_columns(twins, {"used"}));
  CHECK_FALSE(choose_columns(twins, {""}));
  CHECK(names(*choose_columns(twins, {"b"})) == "b ");
}

TEST_CASE("UnknownColumnIsRefusedInOneLineThatNamesTheList") {
  const auto columns = choose_columns(all, {"+speed"});
  REQUIRE_FALSE(columns);
  CHECK(columns.error.find("'speed'") != std::string::npos);
  CHECK(columns.error.find("-o help") != std::string::npos);
  CHECK(columns.error.find('\n') == std::string::npos);
  CHECK(list_columns(all).find("stall_seconds") != std::string::npos);
}

TEST_CASE("NumbersAlignRightAndTextLeft") {
  const Rows rows{{{"job", "a"}, {"used_bytes", 1024}}, {{"job", "longer"}, {"used_bytes", 3 << 20}}};
  CHECK(render(*choose_columns(all, {"job", "used_bytes"}), rows, {}) ==
        "JOB          USED\n"
        "a        1.00 KiB\n"
        "longer   3.00 MiB\n");
}

TEST_CASE("UnknownValuesAreEmptyNotZero") {
  const Rows rows{{{"job", "a"}}};
  CHECK(render(*choose_columns(all, {"used_bytes", "job"}), rows, {false, false}) == "           a\n");
}

TEST_CASE("SpeedsAreBytesASecondAndADashWhereNoneWasMeasured") {
  constexpr std::array columns{Column{"at", "READS-AT", Kind::speed}};
  const Columns chosen(columns.begin(), columns.end());
  const Rows rows{{{"at", 3 << 20}}, json::object()};
  CHECK(render(chosen, rows, {false, false}) == "3.00 MiB/s\n         -\n");
  CHECK(render(chosen, rows, {true, false}, true) == "3145728/s\n        -\n");
}

TEST_CASE("ExactBytesAndNoHeadings") {
  const Rows rows{{{"used_bytes", 1536}}};
  CHECK(render(*choose_columns(all, {"used_bytes"}), rows, {true, false}) == "     1536\n");
}

TEST_CASE("IdentitiesAreNotAbbreviated") {
  const Rows rows{{{"pid", 1234567}}};
  CHECK(render(*choose_columns(all, {"pid"}), rows, {false, false}) == "1234567\n");
}

TEST_CASE("GrowingColumnsBecomeRates") {
  const json before{{"job", "a"}, {"used_bytes", 7}, {"read_bytes", 1024}, {"stall_seconds", 1.0}};
  const json now{{"job", "a"}, {"used_bytes", 9}, {"read_bytes", 5120}, {"stall_seconds", 1.5}};
  const json rates = rates_of(all, before, now, 2);
  CHECK(rates["used_bytes"] == 9);
  CHECK(rates["read_bytes"] == 2048.0);
  CHECK(rates["stall_seconds"] == 0.25);
  CHECK(render(*choose_columns(all, {"read_bytes", "stall_seconds"}), {rates}, {false, false}, true) ==
        "2.00 KiB/s      25.0%\n");
}

TEST_CASE("CounterThatWentBackStartsOver") {
  CHECK(rates_of(all, {{"read_bytes", 5000}}, {{"read_bytes", 100}}, 1)["read_bytes"] == 100.0);
}

TEST_CASE("NoTimePassedMeansNoRate") {
  CHECK(rates_of(all, {{"read_bytes", 1}}, {{"read_bytes", 100}}, 0)["read_bytes"] == 0.0);
}
