// What there is to hand out, read from a made-up /proc and /sys.
#include "daemon/base/machine.h"

#include <catch2/catch.hpp>

#include "tests/daemon/temporary_directory.h"
#include "tests/units.h"

using namespace terrace::daemon;
using terrace::tests::TemporaryDirectory;

namespace {

using terrace::tests::mib;

struct Machine {
  TemporaryDirectory root;
  Machine() { root.write("proc/meminfo", "MemTotal:        1048576 kB\nMemFree: 12 kB\n"); }
  std::uint64_t limit() const { return memory_limit_bytes(root.path()); }
};

}  // namespace

TEST_CASE("without cgroups it is the machine's memory") { CHECK(Machine().limit() == 1024 * mib); }

TEST_CASE("the tightest ancestor of a version 2 group counts") {
  Machine machine;
  machine.root.write("proc/self/cgroup", "0::/a/b/c\n");
  machine.root.write("sys/fs/cgroup/a/b/c/memory.max", "max\n");
  machine.root.write("sys/fs/cgroup/a/b/memory.max", "104857600\n");
  machine.root.write("sys/fs/cgroup/a/memory.max", "209715200\n");
  CHECK(machine.limit() == 100 * mib);
}

TEST_CASE("what the kernel slows a group down at counts as its limit") {
  Machine machine;
  machine.root.write("proc/self/cgroup", "0::/a/b\n");
  machine.root.write("sys/fs/cgroup/a/b/memory.max", "max\n");
  machine.root.write("sys/fs/cgroup/a/b/memory.high", "max\n");
  machine.root.write("sys/fs/cgroup/a/memory.max", "209715200\n");
  machine.root.write("sys/fs/cgroup/a/memory.high", "104857600\n");
  CHECK(machine.limit() == 100 * mib);
  const auto cgroup = tightest_memory_cgroup(machine.root.path());
  REQUIRE(cgroup);
  CHECK(cgroup->directory == machine.root.path() + "/sys/fs/cgroup/a");
  CHECK(cgroup->limit_bytes == 100 * mib);
  machine.root.write("sys/fs/cgroup/a/memory.high", "99999999999999\n");
  machine.root.write("sys/fs/cgroup/a/memory.max", "99999999999999\n");
  CHECK_FALSE(tightest_memory_cgroup(machine.root.path()));
}

TEST_CASE("the memory hierarchy of version 1 counts, the others do not") {
  Machine machine;
  machine.root.write("proc/self/cgroup", "5:cpu,cpuacct:/other\n4:memory:/jobs/one\n");
  machine.root.write("sys/fs/cgroup/memory/jobs/one/memory.limit_in_bytes", "9223372036854771712\n");
  machine.root.write("sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "52428800\n");
  machine.root.write("sys/fs/cgroup/memory/other/memory.limit_in_bytes", "1\n");
  CHECK(machine.limit() == 50 * mib);
}

TEST_CASE("a limit above the machine's memory changes nothing") {
  Machine machine;
  machine.root.write("proc/self/cgroup", "0::/a\n");
  machine.root.write("sys/fs/cgroup/a/memory.max", "99999999999999\n");
  CHECK(machine.limit() == 1024 * mib);
}

TEST_CASE("nothing to read is 0, not a guess") { CHECK(memory_limit_bytes("/nonexistent") == 0); }

TEST_CASE("this machine has memory and a disk") {
  CHECK(memory_limit_bytes() > 0);
  CHECK(free_disk_bytes("/nonexistent") == 0);
}
