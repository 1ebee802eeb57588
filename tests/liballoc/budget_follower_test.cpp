// The budget follower on made-up cgroup directories of both versions.
#include "liballoc/agent/budget_follower.h"

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/liballoc/support.h"

namespace terrace::liballoc {
namespace {

using test::mib;

constexpr std::uint64_t gib = 1024 * mib;
constexpr std::uint64_t plenty = 64 * gib;

// A directory that looks like a memory cgroup.
class Cgroup {
 public:
  explicit Cgroup(bool v2)
      : v2_(v2), path_(std::filesystem::temp_directory_path() / "terrace-cgroup-XXXXXX") {
    std::string text = path_.string();
    if (::mkdtemp(text.data()) == nullptr) std::abort();
    path_ = text;
    usage(0);
    limit("0");
    stat("");
  }
  ~Cgroup() { std::filesystem::remove_all(path_); }
  Cgroup(const Cgroup&) = delete;
  Cgroup& operator=(const Cgroup&) = delete;

  void usage(std::uint64_t bytes) {
    write(v2_ ? "memory.current" : "memory.usage_in_bytes", std::to_string(bytes));
  }
  void limit(const std::string& text) { write(v2_ ? "memory.max" : "memory.limit_in_bytes", text); }
  void stat(const std::string& text) { write("memory.stat", text); }
  void page_cache(std::uint64_t active, std::uint64_t inactive) {
    stat("anon 1\nactive_file " + std::to_string(active) + "\ninactive_file " + std::to_string(inactive) +
         "\n");
  }
  // An allocation beyond the limit waits: version 2, `below` the limit already.
  void waits(std::uint64_t limit, std::uint64_t below) {
    v2_ ? write("memory.high", std::to_string(limit - below))
        : write("memory.oom_control", "oom_kill_disable 1\nunder_oom 0\noom_kill 0");
  }
  void kills() {
    v2_ ? write("memory.high", "max")
        : write("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0");
  }
  void remove(const char* name) { std::filesystem::remove(path_ / name); }
  const char* path() const { return path_.c_str(); }

 private:
  void write(const char* name, const std::string& text) { std::ofstream(path_ / name) << text << "\n"; }

  bool v2_;
  std::filesystem::path path_;
};

// plain_reserve() of the implementation, as documented: 48 MiB or a 32nd of the limit.
std::uint64_t reserve(std::uint64_t limit) { return std::max<std::uint64_t>(48 * mib, limit / 32); }

// Of a follower that has just been opened.
std::uint64_t budget(const Cgroup& cgroup, std::uint64_t held, std::uint64_t most = plenty) {
  BudgetFollower follower;
  if (follower.open(cgroup.path()) != 0) return 1;
  const std::uint64_t result = follower.budget(held, most);
  follower.close();
  return result;
}

}  // namespace

TEST_CASE("A directory that is no memory cgroup is refused") {
  BudgetFollower follower;
  CHECK(follower.open("/nonexistent/cgroup") == ENOENT);
  CHECK_FALSE(follower.is_open());
  CHECK(follower.open("/proc/version") == ENOTDIR);
  CHECK(follower.open("/proc/self/task") == ENOENT);
  const bool v2 = GENERATE(false, true);
  Cgroup cgroup(v2);
  const char* missing = GENERATE("memory.stat", "limit", "usage");
  if (std::string(missing) == "limit") missing = v2 ? "memory.max" : "memory.limit_in_bytes";
  if (std::string(missing) == "usage") missing = v2 ? "memory.current" : "memory.usage_in_bytes";
  cgroup.remove(missing);
  INFO(missing);
  CHECK(follower.open(cgroup.path()) == ENOENT);
  CHECK_FALSE(follower.is_open());
}

TEST_CASE("The heap gets what the rest of the process leaves") {
  Cgroup cgroup(GENERATE(false, true));
  cgroup.limit(std::to_string(4 * gib));
  // 1 GiB in use, half of it ours: 3 GiB more, less the reserve of 128 MiB.
  cgroup.usage(gib);
  CHECK(budget(cgroup, gib / 2) == gib / 2 + 3 * gib - reserve(4 * gib));
  // Page cache can be reclaimed and does not count.
  cgroup.page_cache(100 * mib, 200 * mib);
  CHECK(budget(cgroup, gib / 2) == gib / 2 + 3 * gib + 300 * mib - reserve(4 * gib));
  // Never more than was granted.
  CHECK(budget(cgroup, gib / 2, gib) == gib);
}

TEST_CASE("Over the limit, the budget is below what is held") {
  Cgroup cgroup(GENERATE(false, true));
  cgroup.limit(std::to_string(gib));
  cgroup.usage(gib);
  CHECK(budget(cgroup, 600 * mib) == 600 * mib - reserve(gib));
  cgroup.usage(4 * gib);
  CHECK(budget(cgroup, 600 * mib) == 0);
}

TEST_CASE("A small limit keeps the least reserve") {
  Cgroup cgroup(true);
  cgroup.limit(std::to_string(256 * mib));
  cgroup.usage(0);
  CHECK(budget(cgroup, 0) == 256 * mib - 48 * mib);
}

TEST_CASE("A calm process needs less reserve where an allocation beyond the limit waits") {
  const bool v2 = GENERATE(false, true);
  Cgroup cgroup(v2);
  cgroup.limit(std::to_string(gib));
  cgroup.usage(900 * mib);
  BudgetFollower follower;
  cgroup.waits(gib, 20 * mib);
  REQUIRE(follower.open(cgroup.path()) == 0);
  // Nothing is known yet of what the rest of the process does.
  CHECK(follower.budget(600 * mib, plenty) == 600 * mib + gib - 900 * mib - reserve(gib));
  CHECK(follower.pause_ns() == 10'000'000);
  for (int look = 0; look < 1000; ++look) follower.budget(600 * mib, plenty);
  const std::uint64_t least = v2 ? 24 * mib : 16 * mib;  // above what memory.high holds back already
  CHECK(follower.reserve_bytes() - least < mib / 16);
  CHECK(follower.budget(600 * mib, plenty) == 600 * mib + gib - 900 * mib - follower.reserve_bytes());
  CHECK(follower.pause_ns() == 4'000'000);
  SECTION("Growth of the heap is none outside it") {
    cgroup.usage(950 * mib);
    follower.budget(650 * mib, plenty);
    CHECK(follower.reserve_bytes() - least < mib / 16);
  }
  SECTION("What grows outside the heap takes it back, many times over, up to the most") {
    cgroup.usage(902 * mib);
    follower.budget(600 * mib, plenty);
    CHECK(follower.reserve_bytes() >= least + 8 * mib);
    cgroup.usage(950 * mib);
    follower.budget(600 * mib, plenty);
    CHECK(follower.reserve_bytes() == reserve(gib));
  }
  SECTION("And so does a kernel that kills again") {
    cgroup.kills();
    for (int look = 0; look < 10; ++look) follower.budget(600 * mib, plenty);
    CHECK(follower.reserve_bytes() == reserve(gib));
  }
  follower.close();
}

TEST_CASE("Where memory.high throttles, it is the limit") {
  Cgroup cgroup(true);
  const char* limit = GENERATE("max", "68719476736");
  cgroup.limit(limit);
  cgroup.waits(gib, 0);
  cgroup.usage(900 * mib);
  BudgetFollower follower;
  REQUIRE(follower.open(cgroup.path()) == 0);
  for (int look = 0; look < 10; ++look) CHECK(follower.budget(600 * mib, plenty) == 600 * mib + 120 * mib);
  follower.close();
}

TEST_CASE("No limit means what was granted") {
  SECTION("version 2 says max") {
    Cgroup cgroup(true);
    cgroup.limit("max");
    cgroup.usage(10 * gib);
    CHECK(budget(cgroup, gib) == plenty);
  }
  SECTION("version 1 says a very large number") {
    Cgroup cgroup(false);
    cgroup.limit("9223372036854771712");
    cgroup.usage(10 * gib);
    CHECK(budget(cgroup, gib) == plenty);
  }
}

TEST_CASE("More page cache than usage does not wrap") {
  Cgroup cgroup(true);
  cgroup.limit(std::to_string(gib));
  cgroup.usage(10 * mib);
  cgroup.page_cache(gib, gib);
  CHECK(budget(cgroup, 0) == gib - 48 * mib);
}

TEST_CASE("Unreadable usage leaves the grant in force") {
  Cgroup cgroup(true);
  cgroup.limit(std::to_string(gib));
  std::ofstream(std::string(cgroup.path()) + "/memory.current") << "garbage";
  CHECK(budget(cgroup, 0) == plenty);
}

TEST_CASE("A limit that changes is followed within a few looks") {
  Cgroup cgroup(true);
  cgroup.limit(std::to_string(4 * gib));
  cgroup.usage(gib);
  BudgetFollower follower;
  REQUIRE(follower.open(cgroup.path()) == 0);
  CHECK(follower.is_open());
  CHECK(follower.budget(gib, plenty) == 4 * gib - reserve(4 * gib));
  CHECK(follower.usage_bytes() == gib);
  CHECK(follower.limit_bytes() == 4 * gib);
  // The usage counts at once, limit and page cache within a hundred milliseconds' worth of looks.
  cgroup.usage(2 * gib);
  CHECK(follower.budget(gib, plenty) == 3 * gib - reserve(4 * gib));
  cgroup.limit(std::to_string(3 * gib));
  std::uint64_t budget = 0;
  for (int i = 0; i < 10; ++i) budget = follower.budget(gib, plenty);
  CHECK(budget == 2 * gib - reserve(3 * gib));
  follower.close();
  CHECK_FALSE(follower.is_open());
}

TEST_CASE("Near the limit the page cache is looked at every time") {
  Cgroup cgroup(GENERATE(false, true));
  cgroup.limit(std::to_string(4 * gib));
  cgroup.usage(4 * gib - 100 * mib);
  cgroup.page_cache(0, 900 * mib);
  BudgetFollower follower;
  REQUIRE(follower.open(cgroup.path()) == 0);
  const std::uint64_t before = follower.budget(gib, plenty);
  // The kernel gave up page cache to anonymous memory: the usage stands still.
  cgroup.page_cache(0, 100 * mib);
  CHECK(follower.budget(gib, plenty) == before - 800 * mib);
  follower.close();
}

TEST_CASE("Far from the limit an old figure of the page cache serves for a few looks") {
  Cgroup cgroup(GENERATE(false, true));
  cgroup.limit(std::to_string(4 * gib));
  cgroup.usage(gib);
  cgroup.page_cache(0, 900 * mib);
  BudgetFollower follower;
  REQUIRE(follower.open(cgroup.path()) == 0);
  const std::uint64_t before = follower.budget(gib, plenty);
  cgroup.page_cache(0, 100 * mib);
  CHECK(follower.budget(gib, plenty) == before);
  for (int i = 0; i < 10; ++i) follower.budget(gib, plenty);
  CHECK(follower.budget(gib, plenty) == before - 800 * mib);
  follower.close();
}

}  // namespace terrace::liballoc
