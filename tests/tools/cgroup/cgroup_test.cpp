// Hierarchies as plain files below a directory that stands for "/".
#include "tools/cli/cgroup/cgroup.h"
#include "tests/units.h"

#include <unistd.h>

#include <catch2/catch.hpp>

#include "tests/tools/temporary_directory.h"

using namespace terrace::cli;

namespace {

using terrace::tests::gib;
constexpr const char* unlimited_v1 = "9223372036854771712\n";

struct Machine : TemporaryDirectory {
  Machine() { write("proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\n"); }

  void mount_v1(const std::string& subtree = "/") const {
    write("proc/self/mountinfo",
          "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
          "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
          "35 31 0:32 " +
              subtree + " /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n");
  }
  void mount_v2(const std::string& subtree = "/") const {
    write("proc/self/mountinfo",
          "30 23 0:27 " + subtree + " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
    write("sys/fs/cgroup/cgroup.controllers", "cpu io memory pids\n");
  }
  void be_in(const std::string& lines) const { write("proc/self/cgroup", lines); }
  std::string at(const std::string& file) const { return (path() / file).string(); }
};

}  // namespace

TEST_CASE("WithoutCgroupsTheMachineIsTheCeiling") {
  const Machine machine;
  CHECK_FALSE(find_memory_cgroup(machine.path()));
  CHECK(memory_ceiling(machine.path()).bytes == 16 * gib);
  CHECK(memory_ceiling(machine.path()).origin == "this machine");
}

TEST_CASE("Version1TightestAncestorWins") {
  const Machine machine;
  machine.mount_v1();
  machine.be_in("4:memory:/jobs/mine\n0::/\n");
  machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", unlimited_v1);
  machine.write("sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", std::to_string(2 * gib) + "\n");
  machine.write("sys/fs/cgroup/memory/jobs/mine/memory.limit_in_bytes", std::to_string(4 * gib) + "\n");
  const auto found = find_memory_cgroup(machine.path());
  REQUIRE(found);
  CHECK(found->version == CgroupVersion::v1);
  CHECK(found->directory == machine.at("sys/fs/cgroup/memory/jobs/mine"));
  const Ceiling ceiling = memory_ceiling(machine.path());
  CHECK(ceiling.bytes == 2 * gib);
  CHECK(ceiling.origin.find("memory/jobs") != std::string::npos);
}

TEST_CASE("Version1LimitAboveTheMachineIsNoCeiling") {
  const Machine machine;
  machine.mount_v1();
  machine.be_in("4:memory:/\n");
  machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(64 * gib));
  CHECK(memory_ceiling(machine.path()).bytes == 16 * gib);
}

TEST_CASE("Version2ReadsMaxAndHighOfEveryAncestor") {
  const Machine machine;
  machine.mount_v2();
  machine.be_in("0::/user.slice/job.scope\n");
  machine.write("sys/fs/cgroup/user.slice/memory.max", "max\n");
  machine.write("sys/fs/cgroup/user.slice/memory.high", std::to_string(3 * gib) + "\n");
  machine.write("sys/fs/cgroup/user.slice/job.scope/memory.max", std::to_string(5 * gib) + "\n");
  machine.write("sys/fs/cgroup/user.slice/job.scope/memory.high", "max\n");
  const auto found = find_memory_cgroup(machine.path());
  REQUIRE(found);
  CHECK(found->version == CgroupVersion::v2);
  CHECK(memory_ceiling(machine.path()).bytes == 3 * gib);
}

TEST_CASE("Version2WithoutTheMemoryControllerIsNotUsed") {
  const Machine machine;
  machine.mount_v2();
  machine.write("sys/fs/cgroup/cgroup.controllers", "cpu pids\n");
  machine.be_in("0::/\n");
  CHECK_FALSE(find_memory_cgroup(machine.path()));
}

TEST_CASE("InAContainerOnlyTheMountedSubtreeIsSeen") {
  const Machine machine;
  machine.mount_v1("/docker/abc");
  machine.write("sys/fs/cgroup/memory/inner/memory.limit_in_bytes", std::to_string(gib));
  machine.be_in("4:memory:/docker/abc/inner\n");
  CHECK(find_memory_cgroup(machine.path())->directory == machine.at("sys/fs/cgroup/memory/inner"));
  machine.be_in("4:memory:/docker/abcdef\n");  // a neighbour whose name begins the same
  CHECK(find_memory_cgroup(machine.path())->directory == machine.at("sys/fs/cgroup/memory"));
}

TEST_CASE("CgroupOutsideOfWhatIsMountedFallsBackToTheMountPoint") {
  const Machine machine;
  machine.mount_v2();
  machine.be_in("0::/../elsewhere\n");
  CHECK(find_memory_cgroup(machine.path())->directory == machine.at("sys/fs/cgroup"));
}

TEST_CASE("MountPointsWithSpacesAreUnescaped") {
  const Machine machine;
  machine.be_in("4:memory:/\n");
  machine.write("proc/self/mountinfo", "35 31 0:32 / /mnt/c\\040groups rw - cgroup cgroup rw,memory\n");
  std::filesystem::create_directories(machine.path() / "mnt/c groups");
  CHECK(find_memory_cgroup(machine.path())->mount == machine.at("mnt/c groups"));
}

TEST_CASE("TruncatedMountinfoIsNoHierarchy") {
  const Machine machine;
  machine.be_in("4:memory:/\n");
  machine.write("proc/self/mountinfo", "35 31 0:32 / /sys\n-\n\n35 31 0:32 / /m rw - cgroup\n");
  CHECK_FALSE(find_memory_cgroup(machine.path()));
}

namespace {

// Version 2, this process (pid 100) in /a/b.
struct Delegated : Machine {
  Delegated() {
    mount_v2();
    be_in("0::/a/b\n");
    write("sys/fs/cgroup/a/cgroup.type", "domain\n");
    write("sys/fs/cgroup/a/cgroup.subtree_control", "");
    write("sys/fs/cgroup/a/b/cgroup.type", "domain\n");
    write("sys/fs/cgroup/a/b/cgroup.subtree_control", "");
    write("sys/fs/cgroup/a/b/cgroup.procs", "100\n");
  }
  terrace::Result<JobPlace> plan() const { return plan_job_place(*find_memory_cgroup(path()), 100); }
};

}  // namespace

TEST_CASE("Version1ChildGoesBelowOurOwnCgroup") {
  const Machine machine;
  machine.mount_v1();
  machine.be_in("4:memory:/\n");
  std::filesystem::create_directories(machine.path() / "sys/fs/cgroup/memory");
  const auto place = plan_job_place(*find_memory_cgroup(machine.path()), 100);
  REQUIRE(place);
  CHECK(place->parent == machine.at("sys/fs/cgroup/memory"));
  CHECK_FALSE(place->step_aside);
}

TEST_CASE("Version2ControllerHandedOnAlreadyIsUsed") {
  const Delegated machine;
  machine.write("sys/fs/cgroup/a/b/cgroup.subtree_control", "cpu memory\n");
  const auto place = machine.plan();
  REQUIRE(place);
  CHECK(place->parent == machine.at("sys/fs/cgroup/a/b"));
  CHECK_FALSE(place->enable_controller);
}

TEST_CASE("Version2AloneInTheCgroupStepsAside") {
  const Delegated machine;
  const auto place = machine.plan();
  REQUIRE(place);
  CHECK(place->parent == machine.at("sys/fs/cgroup/a/b"));
  CHECK(place->enable_controller);
  CHECK(place->step_aside);
}

TEST_CASE("Version2WithNeighboursGoesBesideWhenThereIsNoLimitToEscape") {
  const Delegated machine;
  machine.write("sys/fs/cgroup/a/b/cgroup.procs", "99\n100\n");
  machine.write("sys/fs/cgroup/a/cgroup.subtree_control", "memory\n");
  machine.write("sys/fs/cgroup/a/b/memory.max", "max\n");
  const auto place = machine.plan();
  REQUIRE(place);
  CHECK(place->parent == machine.at("sys/fs/cgroup/a"));
  CHECK_FALSE(place->enable_controller);
}

TEST_CASE("Version2NeverEscapesALimitByGoingBeside") {
  const Delegated machine;
  machine.write("sys/fs/cgroup/a/b/cgroup.procs", "99\n100\n");
  machine.write("sys/fs/cgroup/a/cgroup.subtree_control", "memory\n");
  machine.write("sys/fs/cgroup/a/b/memory.max", std::to_string(gib));
  const auto place = machine.plan();
  REQUIRE_FALSE(place);
  CHECK(place.error.find("systemd-run") != std::string::npos);
}

TEST_CASE("Version2TopmostCgroupMayKeepItsProcesses") {
  const Machine machine;
  machine.mount_v2();
  machine.be_in("0::/\n");
  machine.write("sys/fs/cgroup/cgroup.procs", "1\n2\n100\n");
  machine.write("sys/fs/cgroup/cgroup.subtree_control", "");
  const auto place = plan_job_place(*find_memory_cgroup(machine.path()), 100);
  REQUIRE(place);
  CHECK(place->enable_controller);
  CHECK_FALSE(place->step_aside);
}

TEST_CASE("ChildOnThisMachineHasTheLimitAndIsRemoved") {
  const auto own = find_memory_cgroup();
  auto child = own ? JobCgroup::create(*own, std::uint64_t{256} << 20)
                   : terrace::refused<JobCgroup>("no memory cgroup here");
  if (!child) {
    WARN("SKIP: " << child.error);
    return;
  }
  CHECK(limit_of(own->version, child->directory()) == std::uint64_t{256} << 20);
  CHECK(child->remove());
  CHECK_FALSE(std::filesystem::exists(child->directory()));
}
