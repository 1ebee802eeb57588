// The page and the trace say what the history says.
#include "tools/cli/timeline/page.h"
#include "tests/tools/says.h"
#include "tests/tools/timeline/recorded.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

using namespace terrace::cli;
using namespace terrace::cli::test;
using nlohmann::json;
using terrace::wire::EventKind;

namespace {

Recording some_seconds() {
  Recording recording =
      recorded({at(100, EventKind::alloc, here, 2 * run), at(200, EventKind::evict, here + run, run),
                at(300, EventKind::fault, here + run, run), at(350, EventKind::read_done, here + run, run),
                at(400, EventKind::restore, here + run, run), at(500, EventKind::free, here, 2 * run),
                at(600, EventKind::alloc, here, run)});
  recording.samples = {
      {.time_ns = ms(0), .live_bytes = 5, .resident_bytes = 4, .compressed_bytes = 1, .budget_bytes = 9},
      {.time_ns = ms(500), .live_bytes = 6, .resident_bytes = 6}};
  return recording;
}

// The text between a mark and the end of its element.
std::string element(const std::string& page, const std::string& id) {
  const std::size_t mark = page.find("id=\"" + id + "\">");
  REQUIRE(mark != std::string::npos);
  const std::size_t begin = page.find('>', mark) + 1;
  return page.substr(begin, page.find("</script>", begin) - begin);
}

std::string from_base64(const std::string& text) {
  static const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int have = 0;
  for (const char c : text) {
    if (c == '=') break;
    const std::size_t digit = digits.find(c);
    REQUIRE(digit != std::string::npos);
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    if ((have += 6) < 8) continue;
    have -= 8;
    bytes += static_cast<char>(bits >> have & 255);
  }
  return bytes;
}

class ReadPage {
 public:
  explicit ReadPage(const std::string& page)
      : head(json::parse(element(page, "head"))), bytes_(from_base64(element(page, "data"))) {}
  template <class Number>
  std::vector<double> column(const std::string& name) const {
    for (const json& place : head.at("columns")) {
      if (place.at(0) != name) continue;
      const std::size_t offset = place.at(2), count = place.at(3);
      REQUIRE(offset % sizeof(Number) == 0);
      REQUIRE(offset + count * sizeof(Number) <= bytes_.size());
      std::vector<double> values;
      for (std::size_t i = 0; i < count; ++i) {
        Number number{};
        std::memcpy(&number, &bytes_[offset + i * sizeof(Number)], sizeof(Number));
        values.push_back(static_cast<double>(number));
      }
      return values;
    }
    FAIL("no column " << name);
    return {};
  }
  json head;

 private:
  std::string bytes_;
};

}  // namespace

TEST_CASE("ThePageHoldsTheHistoryInColumns") {
  const Recording recording = some_seconds();
  const ReadPage page(html_of(recording, history_of(recording)));
  CHECK(page.head.at("seconds") == Approx(1.0));
  CHECK(page.column<double>("bytes") == std::vector<double>{2.0 * run, 1.0 * run});
  CHECK(page.column<double>("address") == std::vector<double>{1.0 * here, 1.0 * here});
  CHECK(page.column<double>("born").at(0) == Approx(0.1));
  CHECK(page.column<double>("died").at(0) == Approx(0.5));
  CHECK(std::isnan(page.column<double>("died").at(1)));
  CHECK(page.column<std::uint32_t>("awayObject") == std::vector<double>{0});
  CHECK(page.column<float>("awayFrom").at(0) == Approx(0.2));
  CHECK(page.column<double>("awayOffset") == std::vector<double>{1.0 * run});
  CHECK(page.column<double>("waitSince").at(0) == Approx(0.3));
  CHECK(page.column<float>("waitSeconds").at(0) == Approx(0.1));
  CHECK(page.column<std::uint8_t>("waitCause") == std::vector<double>{0});
  CHECK(page.column<double>("resident") == std::vector<double>{3, 6});  // without what holds frames
}

TEST_CASE("ANameThatEndsAScriptEndsNone") {
  Recording recording = some_seconds();
  recording.job = "</script><script>alert(1)</script>";
  recording.program = std::string("\xff\xfe");  // no UTF-8
  const std::string page = html_of(recording, history_of(recording));
  CHECK_FALSE(says(page, "<script>alert"));
  CHECK(ReadPage(page).head.at("job") == recording.job);
}

TEST_CASE("APageOfNothingIsAPage") {
  const Recording recording = recorded({});
  const ReadPage page(html_of(recording, history_of(recording)));
  CHECK(page.column<double>("bytes").empty());
}

TEST_CASE("TheTraceHasSlicesWithinSlicesAndCounters") {
  const Recording recording = some_seconds();
  const json trace = json::parse(perfetto_of(recording, history_of(recording)));
  std::vector<std::string> nested;
  int waits = 0, counters = 0;
  for (const json& event : trace.at("traceEvents")) {
    const std::string phase = event.at("ph");
    if (phase == "b" || phase == "e") nested.push_back(phase + " " + event.at("name").get<std::string>());
    if (phase == "C") ++counters;
    if (phase == "X") {
      ++waits;
      CHECK(event.at("name") == "pool");
      CHECK(event.at("ts") == Approx(300e3));
      CHECK(event.at("dur") == Approx(100e3));
    }
  }
  CHECK(waits == 1);
  CHECK(counters == 10);  // five for each sample
  CHECK(nested == std::vector<std::string>{"b 4.00 MiB", "e 4.00 MiB", "b away", "e away"});
}

TEST_CASE("StepsStandBesideWhatWasPlanned") {
  Recording recording = recorded({at(100, EventKind::step, 3, 10), at(150, EventKind::step, 3, 10, 2),
                                  at(300, EventKind::step, 3, 10), at(700, EventKind::step, 3, 10),
                                  at(800, EventKind::step, 3, 0), at(900, EventKind::step, 3, 10)});
  recording.samples = {{.time_ns = ms(0), .planned_in_bytes = 1, .planned_out_bytes = 2},
                       {.time_ns = ms(900), .planned_in_bytes = 11, .planned_out_bytes = 22}};
  PlannedStep none, plan;
  none.policy = plan.policy = "g10";
  none.reason = "no period is known";
  plan.entries = 5;
  plan.step_seconds = 0.25;
  plan.tier_peak_bytes = {8, 7};
  recording.plans = {{ms(0), none}, {ms(200), plan}};
  const ReadPage page(html_of(recording, history_of(recording)));
  const auto seconds = page.column<double>("stepSeconds");
  REQUIRE(seconds.size() == 5);
  CHECK(seconds[0] == Approx(0.2));  // to the next one of the same process
  CHECK(std::isnan(seconds[1]));
  CHECK(seconds[2] == Approx(0.4));
  CHECK(std::isnan(seconds[3]));  // the program left it
  CHECK(std::isnan(seconds[4]));
  CHECK(page.column<double>("plannedIn") == std::vector<double>{1, 11});
  CHECK(page.column<double>("plannedOut") == std::vector<double>{2, 22});
  const json& plans = page.head.at("plans");
  REQUIRE(plans.size() == 2);
  CHECK(plans[0].at("reason") == "no period is known");
  CHECK(plans[1].at("since") == Approx(0.2));
  CHECK(plans[1].at("step_seconds") == 0.25);
  CHECK(plans[1].at("tier_peak_bytes") == json{8, 7});
}
