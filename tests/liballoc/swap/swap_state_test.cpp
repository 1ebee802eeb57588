// What may be swapped, of made-up machines and cgroups of both versions.
#include "liballoc/agent/swap/swap_state.h"

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/liballoc/support.h"

namespace terrace::liballoc {
namespace {

using test::mib;

class Machine {
 public:
  Machine() : path_(std::filesystem::temp_directory_path() / "terrace-swap-XXXXXX") {
    std::string text = path_.string();
    if (::mkdtemp(text.data()) == nullptr) std::abort();
    path_ = text;
    swap_free(4096 * mib);
  }
  ~Machine() { std::filesystem::remove_all(path_); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  void swap_free(std::uint64_t bytes) {
    write("meminfo", "MemTotal:       24000 kB\nSwapTotal:      9999999 kB\nSwapFree:       " +
                         std::to_string(bytes / 1024) + " kB\n");
  }
  void write(const std::string& name, const std::string& text) {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << (text.ends_with('\n') ? "" : "\n");
  }
  void remove(const std::string& name) { std::filesystem::remove(path_ / name); }
  void swap_of(const std::string& cgroup, const std::string& most, std::uint64_t used) {
    write(cgroup + "/memory.swap.max", most);
    write(cgroup + "/memory.swap.current", std::to_string(used));
  }
  std::string at(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

struct Opened {
  Opened(const Machine& machine, const std::string& cgroup) {
    REQUIRE(state.open(machine.at(cgroup).c_str(), machine.at("").c_str()) == 0);
  }
  ~Opened() { state.close(); }
  SwapState state;
};

}  // namespace

TEST_CASE("The least of the machine and of all cgroups above counts, version 2") {
  Machine m;
  m.write("a/b/memory.current", "0");
  m.swap_of("a/b", "max", 7 * mib);
  m.swap_of("a", "max", 9 * mib);
  const Opened opened(m, "a/b");
  const SwapState& s = opened.state;
  CHECK(s.free_bytes() == 4096 * mib);
  m.swap_of("a", std::to_string(100 * mib), 30 * mib);
  CHECK(s.free_bytes() == 70 * mib);
  m.swap_of("a/b", std::to_string(50 * mib), 10 * mib);
  CHECK(s.free_bytes() == 40 * mib);
  m.swap_free(20 * mib);
  CHECK(s.free_bytes() == 20 * mib);
  m.swap_of("a/b", std::to_string(5 * mib), 10 * mib);
  CHECK(s.free_bytes() == 0);
  m.swap_of("a/b", "0", 0);
  CHECK(s.free_bytes() == 0);
}

TEST_CASE("A machine may not want to swap") {
  Machine m;
  m.write("a/memory.current", "0");
  const Opened opened(m, "a");
  const SwapState& s = opened.state;
  CHECK(s.free_bytes() == 4096 * mib);
  m.write("sys/vm/swappiness", "1");
  CHECK(s.free_bytes() == 4096 * mib);
  m.write("sys/vm/swappiness", "0");
  CHECK(s.free_bytes() == 0);
}

TEST_CASE("Version 1 has a swappiness, and a limit of memory and swap together") {
  Machine m;
  m.write("a/memory.swappiness", "60");
  const auto stat = [&](std::uint64_t memory, std::uint64_t both, std::uint64_t swap) {
    m.write("a/memory.stat", "cache 1\nswap " + std::to_string(swap) + "\nhierarchical_memory_limit " +
                                 std::to_string(memory) + "\nhierarchical_memsw_limit " +
                                 std::to_string(both));
  };
  stat(100 * mib, 9223372036854771712ULL, 0);
  const Opened opened(m, "a");
  const SwapState& s = opened.state;
  CHECK(s.free_bytes() == 4096 * mib);
  stat(100 * mib, 160 * mib, 15 * mib);
  CHECK(s.free_bytes() == 45 * mib);
  stat(100 * mib, 100 * mib, 0);
  CHECK(s.free_bytes() == 0);
  stat(100 * mib, 160 * mib, 0);
  m.write("a/memory.swappiness", "0");
  CHECK(s.free_bytes() == 0);
  m.write("a/memory.swappiness", "1");
  m.write("a/memory.stat", "cache 1");  // a kernel that does not account for swap
  CHECK(s.free_bytes() == 4096 * mib);
}

TEST_CASE("What cannot be told is no swap") {
  Machine m;
  m.write("a/memory.current", "0");
  const Opened opened(m, "a");
  const SwapState& s = opened.state;
  const char* text = GENERATE("", "SwapFree:", "SwapFree: many kB", "SwapFree: -1 kB", "SwapFree: 12345",
                              "SwapTotal: 12345 kB");
  m.write("meminfo", text);
  CHECK(s.free_bytes() == 0);
}

TEST_CASE("What is swapped and what is resident are read as the kernel writes them") {
  Machine m;
  m.write("a/memory.current", "0");
  m.write("self/status", "Name:\tjob\nRssAnon:\t   20480 kB\nRssFile:\t    5 kB\nVmSwap:\t      12 kB\n");
  const Opened opened(m, "a");
  CHECK(opened.state.swapped_bytes() == 12 * 1024);
  CHECK(opened.state.resident_bytes() == 20 * mib);
  m.write("self/status", "Name:\tjob\n");
  CHECK(opened.state.swapped_bytes() == 0);
  CHECK(opened.state.resident_bytes() == 0);
}

TEST_CASE("Of this process the kernel tells what is swapped, and there may be no such cgroup") {
  SwapState s;
  CHECK(s.open("/nowhere/at/all") == ENOENT);
  CHECK_FALSE(s.is_open());
  CHECK(s.free_bytes() == 0);
  Machine m;
  REQUIRE(s.open(m.at("").c_str()) == 0);
  CHECK(s.swapped_bytes() < 1024 * mib);
  const std::uint64_t before = s.resident_bytes();
  const std::vector<char> block(64 * mib, 'x');
  CHECK(s.resident_bytes() + s.swapped_bytes() >= before + 60 * mib);
  s.close();
}

}  // namespace terrace::liballoc
