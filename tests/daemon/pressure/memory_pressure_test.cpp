// The kernel's texts as it writes them, and others.
#include "daemon/pressure/memory_pressure.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/daemon/temporary_directory.h"
#include "tests/units.h"

using namespace terrace::daemon;
using terrace::tests::gib;

namespace {

const std::string psi_text =
    "some avg10=12.34 avg60=0.00 avg300=0.00 total=5218439\nfull avg10=0.05 avg60=0.00 avg300=0.00 "
    "total=5107839\n";
const std::string meminfo_now = "MemTotal:       1048576 kB\nMemFree:  1 kB\nMemAvailable:     2048 kB\n";

bool is_read(const std::string& pressure_text, const std::string& meminfo_text = meminfo_now) {
  return read_memory_state(pressure_text, meminfo_text).has_value();
}

}  // namespace

TEST_CASE("pressure and memory are read as the kernel writes them") {
  const auto state = read_memory_state(psi_text, meminfo_now);
  REQUIRE(state);
  CHECK(state->some == 1234);
  CHECK(state->full == 5);
  CHECK(state->available_bytes == 2048 * 1024);
  CHECK(state->total_bytes == gib);
}

TEST_CASE("TextsThatNoKernelWritesAreNotRead") {
  CHECK_FALSE(is_read(""));
  CHECK_FALSE(is_read("some avg10=12.34 avg60=0.00\n"));  // before 5.13 a cgroup's, or cut off
  CHECK_FALSE(is_read("some avg10=-1.00 \nfull avg10=0.00 \n"));
  CHECK_FALSE(is_read("some avg10=101.00 \nfull avg10=0.00 \n"));
  CHECK_FALSE(is_read("some avg10=99999999999999999999999.00 \nfull avg10=0.00 \n"));
  CHECK_FALSE(is_read("some avg10=1.5 \nfull avg10=0.00 \n"));
  CHECK_FALSE(is_read("some avg10=1.005 \nfull avg10=0.00 \n"));
  CHECK_FALSE(is_read("some avg10=1.00"));
  CHECK_FALSE(is_read("xsome avg10=1.00 \nfull avg10=0.00 \n"));
  CHECK_FALSE(is_read(psi_text, ""));
  CHECK_FALSE(is_read(psi_text, "MemTotal: 1 kB\n"));
  CHECK_FALSE(is_read(psi_text, "MemTotal: 1 kB\nMemAvailable: lots\n"));
  CHECK_FALSE(is_read(psi_text, "MemTotal: 1 kB\nMemAvailable: 1 MB\n"));
  CHECK_FALSE(is_read(psi_text, "MemTotal: 1 kB\nMemAvailable: 18446744073709551615 kB\n"));
  CHECK_FALSE(is_read(psi_text, "MemTotal: 1 kB\nMemAvailable:"));
}

TEST_CASE("a cgroup is read as the kernel writes it") {
  const auto state =
      read_cgroup_state(psi_text, "805306368\n", "anon 1\nfile 9\ninactive_file 268435456\n", gib);
  REQUIRE(state);
  CHECK(state->some == 1234);
  CHECK(state->available_bytes == gib / 2);
  CHECK(state->total_bytes == gib);
  CHECK(read_cgroup_state(psi_text, "9999999999\n", "inactive_file 0\n", gib)->available_bytes == 0);
  CHECK(read_cgroup_state(psi_text, "0\n", "inactive_file 5\n", gib)->available_bytes == gib);
  CHECK_FALSE(read_cgroup_state("", "1\n", "inactive_file 0\n", gib));
  CHECK_FALSE(read_cgroup_state(psi_text, "", "inactive_file 0\n", gib));
  CHECK_FALSE(read_cgroup_state(psi_text, "max\n", "inactive_file 0\n", gib));
  CHECK_FALSE(read_cgroup_state(psi_text, "1\n", "active_file 0\n", gib));
}

TEST_CASE("a cgroup over memory.high lowers the budget on a machine that has plenty") {
  const terrace::tests::TemporaryDirectory made_up;
  made_up.write("proc/meminfo", "MemTotal:  33554432 kB\nMemAvailable: 33554432 kB\n");
  made_up.write("proc/pressure/memory", "some avg10=0.00 avg60=0\nfull avg10=0.00 avg60=0\n");
  made_up.write("proc/self/cgroup", "0::/jobs\n");
  made_up.write("sys/fs/cgroup/jobs/memory.high", std::to_string(16 * gib) + "\n");
  made_up.write("sys/fs/cgroup/jobs/memory.current", std::to_string(16 * gib) + "\n");
  made_up.write("sys/fs/cgroup/jobs/memory.stat", "inactive_file 4096\n");
  made_up.write("sys/fs/cgroup/jobs/memory.pressure", psi_text);
  MemoryPressure watched(made_up.path());
  for (std::uint64_t i = 1; i < 5; ++i) watched.look(8 * gib, i * MemoryPressure::pause_ns);
  CHECK(watched.of(8 * gib) == 8 * gib - gib / 2);
}

TEST_CASE("without the kernel's word the budget stays, and it is known that it does not follow") {
  const terrace::tests::TemporaryDirectory made_up;
  MemoryPressure watched(made_up.path());
  CHECK_FALSE(watched.is_known());
  for (std::uint64_t i = 1; i < 100; ++i) CHECK_FALSE(watched.look(16 * gib, i * MemoryPressure::pause_ns));
  CHECK(watched.is_known() == false);
  CHECK(watched.of(16 * gib) == 16 * gib);
}

TEST_CASE("this machine's own word is understood, where it has one") {
  MemoryPressure own("");
  own.look(16 * gib, 1);
  if (!std::filesystem::exists("/proc/pressure/memory")) {
    WARN("SKIP: this kernel has no /proc/pressure/memory");
    return;
  }
  CHECK(own.is_known() == true);
}
