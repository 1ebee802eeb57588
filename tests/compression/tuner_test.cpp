// The tuner on cost surfaces whose best point is known, and the file that remembers what it found.
#include "compression/tuner/tuner.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <random>
#include <set>
#include <thread>

using namespace terrace::compression;

namespace {

// What a compaction kernel's launch may choose from: 4 x 8 x 6 points.
const std::vector<Parameter>& space() {
  static const std::vector<Parameter> parameters = {
      {"threads", {128, 256, 512, 1024}},
      {"ctas_per_unit", {1, 2, 3, 4, 5, 6, 7, 8}, false},
      {"items_per_thread", {1, 2, 4, 8, 16, 32}},
  };
  return parameters;
}

double value(const Point& point, std::size_t parameter) {
  return space()[parameter].values[point[parameter]];
}

using Surface = double (*)(const Point&);

// Latency hides behind enough bytes in flight; beyond that, CTAs cost.
double bowl(const Point& p) {
  const double flight = value(p, 0) * value(p, 1) * value(p, 2);
  return 100 + 15 * std::pow(std::log2(flight / 8192), 2) / 4 + 3 * std::abs(std::log2(value(p, 0) / 256));
}

// Rises steeply where registers do not suffice; past that, nothing can be launched.
double cliff(const Point& p) {
  const double registers = 24 + 3 * value(p, 2), wanted = registers * value(p, 0) * value(p, 1);
  if (wanted > 4 * 65536) return std::numeric_limits<double>::infinity();
  return 80 + 40 / value(p, 1) + 30 / value(p, 2) + (wanted > 65536 ? 35 * (wanted / 65536 - 1) : 0);
}

// Two valleys; the one at many threads is 6% deeper.
double two_valleys(const Point& p) {
  const double small = std::pow(std::log2(value(p, 0) / 128), 2) + std::pow(value(p, 1) - 7, 2) / 8;
  const double large = std::pow(std::log2(value(p, 0) / 1024), 2) + std::pow(value(p, 1) - 2, 2) / 8;
  return 100 - 12 * std::exp(-small) - 18 * std::exp(-large) + 2 * std::abs(std::log2(value(p, 2) / 4));
}

// Nearly flat but for one parameter.
double ridge(const Point& p) { return 50 + 20 * std::abs(std::log2(value(p, 2) / 16)) + 0.1 * value(p, 1); }

double best_of(Surface surface) {
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t a = 0; a < 4; ++a)
    for (std::size_t b = 0; b < 8; ++b)
      for (std::size_t c = 0; c < 6; ++c) best = std::min(best, surface({a, b, c}));
  return best;
}

// Of twenty searches under different noise: how many end within 2% of the best.
int searches_within_two_percent(Surface surface, double noise) {
  int good = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> factor(1, noise);
    std::set<Point> measured;
    const auto tuned = tune(space(), [&](const Point& p) {
      measured.insert(p);
      return surface(p) * factor(random);
    });
    REQUIRE(tuned.has_value());
    REQUIRE(tuned->trials == measured.size());
    REQUIRE(tuned->trials <= 40);  // of 192
    good += surface(tuned->best) <= 1.02 * best_of(surface) ? 1 : 0;
  }
  return good;
}

class TemporaryFile {
 public:
  TemporaryFile() {
    char name[] = "/tmp/terrace-tuner-XXXXXX";
    directory_ = mkdtemp(name);
  }
  ~TemporaryFile() {
    unlink(path().c_str());
    rmdir(directory_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  std::string path() const { return directory_ + "/geometries.json"; }
  void write(const std::string& text) const { std::ofstream(path()) << text; }
  std::string read() const {
    std::ifstream file(path());
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string directory_;
};

}  // namespace

TEST_CASE("ExactCostsLeadToTheBestGeometryInAFifthOfTheTrials") {
  REQUIRE(searches_within_two_percent(bowl, 0) == 20);
  REQUIRE(searches_within_two_percent(cliff, 0) == 20);
  REQUIRE(searches_within_two_percent(two_valleys, 0) == 20);
  REQUIRE(searches_within_two_percent(ridge, 0) == 20);
}

TEST_CASE("NoiseOfHalfAPercentMisleadsHardlyAnySearch") {
  for (const Surface surface : {bowl, cliff, two_valleys, ridge})
    REQUIRE(searches_within_two_percent(surface, 0.005) >= 19);
}

// Neighbours of the cliff's best point differ by 1.3%, which such noise hides at times.
TEST_CASE("NoiseOfOnePercentMisleadsFewSearches") {
  for (const Surface surface : {bowl, cliff, two_valleys, ridge})
    REQUIRE(searches_within_two_percent(surface, 0.01) >= 17);
}

TEST_CASE("ASmallSpaceIsMeasuredAsAWhole") {
  const std::vector<Parameter> small = {{"threads", {128, 256, 512}}};
  const auto tuned = tune(small, [](const Point& p) { return p[0] == 2 ? 1.0 : 2.0; });
  REQUIRE(tuned);
  REQUIRE(tuned->best == Point{2});
  REQUIRE(tuned->trials == 3);
}

TEST_CASE("ASpaceWithoutAPointThatRunsHasNoBest") {
  const auto never = [](const Point&) { return std::numeric_limits<double>::infinity(); };
  REQUIRE_FALSE(tune(space(), never));
  REQUIRE_FALSE(tune({}, never));
  REQUIRE_FALSE(tune({{"threads", {}}}, never));
  REQUIRE_FALSE(tune({{"a", std::vector<double>(1000, 1)}, {"b", std::vector<double>(1000, 1)}}, never));
}

// A quarter of this space runs, and none of the first six points.
TEST_CASE("TheSearchGoesOnWhileNothingRuns") {
  const auto in_a_corner = [](const Point& p) {
    return p[0] == 1 && p[1] % 4 < 2 ? 1.0 + std::abs(static_cast<double>(p[2]) - 3)
                                     : std::numeric_limits<double>::infinity();
  };
  std::size_t failed_first = 0;
  bool has_run = false;
  const auto tuned = tune(space(), [&](const Point& p) {
    const double cost = in_a_corner(p);
    has_run = has_run || std::isfinite(cost);
    failed_first += has_run ? 0 : 1;
    return cost;
  });
  CHECK(failed_first >= 6);
  REQUIRE(tuned);
  CHECK(tuned->cost == 1);
  CHECK(tuned->best[2] == 3);
}

TEST_CASE("ACostThatIsNoNumberIsOfAPointThatCannotRun") {
  for (const std::size_t bad : {0, 1, 2, 3}) {
    const auto tuned = tune(space(), [&](const Point& p) {
      return p[0] == bad ? std::numeric_limits<double>::quiet_NaN() : ridge(p);
    });
    INFO(bad);
    REQUIRE(tuned);
    CHECK(tuned->best[0] != bad);
    CHECK(tuned->cost <= 1.02 * best_of(ridge));
  }
  const auto never = [](const Point&) { return std::numeric_limits<double>::quiet_NaN(); };
  CHECK_FALSE(tune(space(), never));
}

TEST_CASE("WhatRanOnceAndThenNoMoreIsNotTheBest") {
  int calls = 0;
  const auto once = [&](const Point&) {
    return calls++ == 0 ? 1.0 : std::numeric_limits<double>::infinity();
  };
  CHECK_FALSE(tune({{"threads", {128, 256}}}, once));
}

TEST_CASE("GeometriesAreRememberedByDevice") {
  const TemporaryFile file;
  Geometries geometries;
  REQUIRE_FALSE(read_geometries(file.path(), geometries));
  REQUIRE(geometries.empty());
  REQUIRE_FALSE(remember_geometry(file.path(), "Device A", {{"threads", 256}, {"cost", 12.5}}));
  REQUIRE_FALSE(remember_geometry(file.path(), "Device B", {{"threads", 512}}));
  REQUIRE_FALSE(remember_geometry(file.path(), "Device A", {{"threads", 128}}));
  REQUIRE_FALSE(read_geometries(file.path(), geometries));
  REQUIRE(geometries == Geometries{{"Device A", {{"threads", 128}}}, {"Device B", {{"threads", 512}}}});
}

TEST_CASE("AStoreThatIsNotOursIsNeitherReadNorOverwritten") {
  const TemporaryFile file;
  const std::string bad[] = {"",
                             "{",
                             "[]",
                             R"({"version": 2, "geometries": {}})",
                             R"({"version": 1})",
                             R"({"version": 1, "geometries": {}, "more": 1})",
                             R"({"version": 1, "geometries": {"A": {}}})",
                             R"({"version": 1, "geometries": {"A": {"threads": "256"}}})",
                             R"({"version": 1, "geometries": {"": {"threads": 256}}})",
                             R"({"version": 1, "geometries": {"A": {"threads": 1e999}}})",
                             std::string(2 << 20, ' ')};
  for (const std::string& text : bad) {
    INFO(text.substr(0, 60));
    file.write(text);
    Geometries geometries = {{"kept", {{"threads", 1}}}};
    const auto error = read_geometries(file.path(), geometries);
    REQUIRE(error);
    REQUIRE(error->message.find(file.path()) == 0);
    REQUIRE(geometries.size() == 1);
    REQUIRE(remember_geometry(file.path(), "A", {{"threads", 256}}));
    REQUIRE(file.read() == text);
  }
}

TEST_CASE("ANameThatIsNoTextIsRefused") {
  const TemporaryFile file;
  for (const std::string name : {"GPU \xff", "\xc3", "\xed\xa0\x80"}) {
    CHECK(remember_geometry(file.path(), name, {{"threads", 256}}));
    CHECK(remember_geometry(file.path(), "A", {{name, 256}}));
  }
  CHECK(file.read().empty());
  REQUIRE_FALSE(remember_geometry(file.path(), "Grafik Ü", {{"threads", 256}}));
  Geometries geometries;
  REQUIRE_FALSE(read_geometries(file.path(), geometries));
  CHECK(geometries.contains("Grafik Ü"));
}

TEST_CASE("WhoMayReadTheFileMayReadTheNextOne") {
  const TemporaryFile file;
  for (const mode_t mode : {0644U, 0660U, 0600U}) {
    REQUIRE_FALSE(remember_geometry(file.path(), "A", {{"threads", 256}}));
    REQUIRE(chmod(file.path().c_str(), mode) == 0);
    REQUIRE_FALSE(remember_geometry(file.path(), "B", {{"threads", 256}}));
    struct stat now {};
    REQUIRE(stat(file.path().c_str(), &now) == 0);
    CHECK((now.st_mode & 07777) == mode);
  }
}

TEST_CASE("WritersAtTheSameTimeLoseNothing") {
  const TemporaryFile file;
  constexpr int writers = 4, devices = 25;
  std::vector<std::thread> threads;
  std::atomic<int> errors = 0;
  for (int writer = 0; writer < writers; ++writer)
    threads.emplace_back([&, writer] {
      for (int device = 0; device < devices; ++device) {
        const std::string name = std::to_string(writer) + "." + std::to_string(device);
        if (remember_geometry(file.path(), name, {{"threads", 256}})) ++errors;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(errors == 0);
  Geometries geometries;
  REQUIRE_FALSE(read_geometries(file.path(), geometries));
  CHECK(geometries.size() == writers * devices);
}

TEST_CASE("ADirectoryThatIsMissingIsNamed") {
  const auto error = remember_geometry("/nonexistent/geometries.json", "A", {{"threads", 256}});
  REQUIRE(error);
  REQUIRE(error->message.find("/nonexistent/geometries.json") == 0);
}
