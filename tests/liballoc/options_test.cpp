// The environment is input from outside: what is accepted, what is refused, and that a refusal says so.
#include "liballoc/base/options.h"

#include <sched.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>

#include "tests/liballoc/captured_stderr.h"
#include "tests/liballoc/variable.h"

namespace terrace::liballoc {
namespace {

// The line that a refused value produces; empty when it was accepted.
std::string refusal(const char* name, const std::string& value) {
  test::Variable variable(name, value);
  test::CapturedStderr captured;
  Options options;
  const bool good = read_options(&options);
  const std::string text = captured.text();
  return good ? "" : text;
}

constexpr char privileged_part[] = "what a privileged program reads";

}  // namespace

TEST_CASE(privileged_part, "[.]") {
  Options options;
  const bool is_left_alone = read_options(&options) && options.disabled;
  ::_exit(is_left_alone ? 0 : 1);  // at once: a leak check would trace this process, which nobody may
}

// A copy of this program that belongs to another user and takes on his identity.
TEST_CASE("a program with more privilege than its caller is left alone") {
  namespace fs = std::filesystem;
  char name[] = "/var/tmp/terrace-options-XXXXXX";
  REQUIRE(::mkdtemp(name) != nullptr);
  const fs::path directory = name, copy = directory / "program";
  fs::copy_file("/proc/self/exe", copy);
  constexpr uid_t nobody = 65534;
  const bool is_prepared = ::chmod(name, 0755) == 0 && ::chown(copy.c_str(), nobody, nobody) == 0 &&
                           ::chmod(copy.c_str(), 04755) == 0;
  struct statvfs where {};
  if (!is_prepared || ::statvfs(name, &where) != 0 || (where.f_flag & ST_NOSUID) != 0) {
    WARN("SKIP: only root can make a set-uid program, in a directory that allows it");
  } else {
    const test::Variable budget("TERRACE_DRAM", "64M");
    const pid_t child = ::fork();
    if (child == 0) {
      ::execl(copy.c_str(), copy.c_str(), privileged_part, nullptr);
      ::_exit(127);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
  fs::remove_all(directory);
}

TEST_CASE("Without variables the defaults hold") {
  Options options;
  REQUIRE(read_options(&options));
  CHECK_FALSE(options.disabled);
  CHECK(options.threshold_bytes == std::size_t{256} * 1024);
  CHECK(options.dram_bytes == 0);
  CHECK(options.mover == MoverKind::automatic);
  CHECK(options.io == IoKind::automatic);
  CHECK(options.log_level == Severity::warning);
  REQUIRE(options.pool_directories.size() == 1);
  CHECK(std::string(options.pool_directories[0]) == "/var/tmp");
}

TEST_CASE("Every variable is read") {
  test::Variable threshold("TERRACE_THRESHOLD", "1M");
  test::Variable dram("TERRACE_DRAM", "1.5G");
  test::Variable pool_size("TERRACE_POOL_SIZE", "3072m");
  test::Variable mover("TERRACE_MOVER", "mremap");
  test::Variable io("TERRACE_IO", "pread");
  test::Variable log("TERRACE_LOG", "debug");
  test::Variable pool("TERRACE_POOL_DIR", "/mnt/fast,/mnt/second");
  test::Variable socket("TERRACE_SOCKET", "/run/t.sock");
  test::Variable daemon("TERRACE_DAEMON", "/usr/bin/terraced");
  test::Variable limit("TERRACE_LIMIT_CGROUP", "/sys/fs/cgroup/x");
  test::Variable job("TERRACE_JOB", "resnet");
  test::Variable fault("TERRACE_FAULT", "read:1:EIO");
  test::Variable workers("TERRACE_WORKERS", "3");
  test::Variable weight("TERRACE_WEIGHT", "1000");
  test::Variable policy("TERRACE_POLICY", "sentinel_interval");
  Options options;
  REQUIRE(read_options(&options));
  CHECK(options.threshold_bytes == 1 << 20);
  CHECK(options.dram_bytes == 1536ULL << 20);
  CHECK(options.pool_bytes == 3ULL << 30);
  CHECK(options.mover == MoverKind::mremap);
  CHECK(options.io == IoKind::pread);
  CHECK(options.log_level == Severity::debug);
  CHECK(options.weight == 1000);
  CHECK(std::string(options.policy) == "sentinel_interval");
  REQUIRE(options.pool_directories.size() == 2);
  CHECK(std::string(options.pool_directories[0]) == "/mnt/fast");
  CHECK(std::string(options.pool_directories[1]) == "/mnt/second");
  CHECK(std::string(options.socket) == "/run/t.sock");
  CHECK(std::string(options.daemon) == "/usr/bin/terraced");
  CHECK(std::string(options.limit_cgroup) == "/sys/fs/cgroup/x");
  CHECK(std::string(options.job) == "resnet");
  CHECK(std::string(options.fault) == "read:1:EIO");
  CHECK(options.workers == 3);
}

TEST_CASE("A bad value is refused, naming variable and value") {
  struct Row {
    const char* name;
    const char* value;
  };
  const Row row = GENERATE(
      Row{"TERRACE_THRESHOLD", "big"}, Row{"TERRACE_THRESHOLD", "4095"}, Row{"TERRACE_DRAM", "60%"},
      Row{"TERRACE_DRAM", "31M"}, Row{"TERRACE_DRAM", "-1"}, Row{"TERRACE_POOL_SIZE", "1.5H"},
      Row{"TERRACE_POOL_SIZE", "1M"}, Row{"TERRACE_POOL_SIZE", "999T"}, Row{"TERRACE_DISABLE", "maybe"},
      Row{"TERRACE_DISABLE", "2"}, Row{"TERRACE_MOVER", "MOVE"}, Row{"TERRACE_MOVER", "moves"},
      Row{"TERRACE_IO", "uring"}, Row{"TERRACE_LOG", "verbose"}, Row{"TERRACE_WORKERS", "17"},
      Row{"TERRACE_WORKERS", "-1"}, Row{"TERRACE_WORKERS", "auto"}, Row{"TERRACE_WEIGHT", "0"},
      Row{"TERRACE_WEIGHT", "1001"}, Row{"TERRACE_WORKERS", "2x"}, Row{"TERRACE_WORKERS", "4294967296"},
      Row{"TERRACE_POLICY", "G10"}, Row{"TERRACE_POLICY", "lru"}, Row{"TERRACE_DAEMON", "terraced"},
      Row{"TERRACE_DAEMON", "./bin/terraced"});
  const std::string line = refusal(row.name, row.value);
  INFO(line);
  CHECK(line.find(std::string(row.name) + "=" + row.value) != std::string::npos);
  CHECK(line.find("running without Terrace") != std::string::npos);
}

TEST_CASE("A bad list of pool directories is refused, with what helps") {
  for (const char* list : {"/a,,/b", ",/a", "/a,", ","}) {
    const std::string line = refusal("TERRACE_POOL_DIR", list);
    INFO(line);
    CHECK(line.find("TERRACE_POOL_DIR=" + std::string(list)) != std::string::npos);
    CHECK(line.find("write /a,/b") != std::string::npos);
  }
  const std::string many = refusal("TERRACE_POOL_DIR", "/1,/2,/3,/4,/5,/6,/7,/8,/9");
  CHECK(many.find("more than 8 directories; name the fastest") != std::string::npos);
  const std::string line = refusal("TERRACE_POOL_DIR", "/a," + std::string(512, 'x'));
  CHECK(line.find("name a link to it") != std::string::npos);
  CHECK(line.find("running without Terrace") != std::string::npos);
}

TEST_CASE("Tiers before the pool take a size or a part of the budget, up to half") {
  Options options;
  test::Variable tiers("TERRACE_TIERS", "compressed=20%");
  REQUIRE(read_options(&options));
  CHECK(options.tiers.compressed().of(1000 << 20) == 200 << 20);
  CHECK(options.tiers.compressed().of(std::uint64_t{40} << 40) == std::uint64_t{8} << 40);
  test::Variable size("TERRACE_TIERS", "compressed=300M");
  REQUIRE(read_options(&options));
  CHECK(options.tiers.compressed().of(1000 << 20) == 300 << 20);
  CHECK_FALSE(options.tiers.compressed().exceeds(1000 << 20));
  CHECK(options.tiers.compressed().exceeds(500 << 20));
  CHECK(options.tiers.compressed().of(500 << 20) == 250 << 20);
  for (const char* list :
       {"compressed", "compressed=", "compressed=x", "compressed=0", "compressed=0%", "compressed=0.00001%",
        "=4G", "dram=4G", "compressed=1G,", ",compressed=1G", "compressed=-1G", "compressed=1G "}) {
    const std::string line = refusal("TERRACE_TIERS", list);
    INFO(line);
    CHECK(line.find("TERRACE_TIERS=" + std::string(list)) != std::string::npos);
    CHECK(line.find("compressed=20%") != std::string::npos);
  }
  CHECK(refusal("TERRACE_TIERS", "compressed=51%").find("at most 50%") != std::string::npos);
  CHECK(refusal("TERRACE_TIERS", "compressed=1G,compressed=1G").find("twice") != std::string::npos);
}

TEST_CASE("NVM before the pool takes a size and a place, or none at all") {
  Options options;
  REQUIRE(read_options(&options));
  CHECK_FALSE(options.tiers.is_named());
  test::Variable tiers("TERRACE_TIERS", "nvm=64G@/mnt/pmem,compressed=20%");
  REQUIRE(read_options(&options));
  CHECK(options.tiers.compressed().is_wanted());
  CHECK(options.tiers.nvm().bytes() == std::uint64_t{64} << 30);
  CHECK(std::string(options.tiers.nvm().directory()) == "/mnt/pmem");
  CHECK(options.tiers.nvm().nodes().is_empty());
  test::Variable nodes("TERRACE_TIERS", "nvm=4G@node1-2");
  REQUIRE(read_options(&options));
  CHECK_FALSE(options.tiers.compressed().is_wanted());
  CHECK(options.tiers.nvm().nodes().has(1));
  CHECK(options.tiers.nvm().nodes().has(2));
  CHECK_FALSE(options.tiers.nvm().nodes().has(0));
  CHECK(std::string(options.tiers.nvm().directory()).empty());
  test::Variable any("TERRACE_TIERS", "nvm=4M");
  REQUIRE(read_options(&options));
  CHECK(options.tiers.nvm().is_wanted());
  CHECK_FALSE(options.tiers.nvm().names_place());
  test::Variable none("TERRACE_TIERS", "none");
  REQUIRE(read_options(&options));
  CHECK(options.tiers.is_named());
  CHECK_FALSE(options.tiers.nvm().is_wanted());
  for (const char* list :
       {"nvm", "nvm=", "nvm=x", "nvm=0", "nvm=20%", "none,nvm=4G", "nvm=4G,none", "nvm=@/a"}) {
    const std::string line = refusal("TERRACE_TIERS", list);
    INFO(line);
    CHECK(line.find("TERRACE_TIERS=" + std::string(list)) != std::string::npos);
    CHECK(line.find("nvm=64G@/mnt/pmem") != std::string::npos);
  }
  for (const char* place :
       {"", "pmem", "./pmem", "node", "nodes1", "node-1", "node2-1", "node1024", "node1x"}) {
    const std::string line = refusal("TERRACE_TIERS", ("nvm=4G@" + std::string(place)).c_str());
    INFO(line);
    CHECK(line.find("the absolute path of a directory, or NUMA nodes such as node1") != std::string::npos);
  }
  CHECK(refusal("TERRACE_TIERS", "nvm=2M").find("at least 4M") != std::string::npos);
  CHECK(refusal("TERRACE_TIERS", "nvm=5T").find("at most 4T") != std::string::npos);
  CHECK(refusal("TERRACE_TIERS", "nvm=4G,nvm=4G").find("nvm is named twice") != std::string::npos);
  CHECK(refusal("TERRACE_TIERS", ("nvm=4G@/" + std::string(511, 'x')).c_str()).find("name a link to it") !=
        std::string::npos);
}

TEST_CASE("NVM alone needs no compressing") {
  test::Variable tiers("TERRACE_TIERS", "nvm=4G@/tmp");
  test::Variable off("TERRACE_COMPRESS", "off");
  CHECK(refusal("TERRACE_TIERS", "nvm=4G@/tmp").empty());
}

TEST_CASE("Compressed DRAM needs compressing and half a budget at most") {
  test::Variable tiers("TERRACE_TIERS", "compressed=600M");
  {
    test::Variable budget("TERRACE_DRAM", "1G");
    CHECK(refusal("TERRACE_TIERS", "compressed=600M").find("at most half of TERRACE_DRAM") !=
          std::string::npos);
    CHECK(refusal("TERRACE_TIERS", "compressed=500M").empty());
  }
  CHECK(refusal("TERRACE_TIERS", "compressed=600M").empty());  // half of whatever is granted, at most
  test::Variable off("TERRACE_COMPRESS", "off");
  CHECK(refusal("TERRACE_TIERS", "compressed=600M").find("leave one of them out") != std::string::npos);
}

TEST_CASE("A pool in named directories is the job's own, but for a private daemon's single one") {
  Options options;
  REQUIRE(read_options(&options));
  CHECK_FALSE(options.makes_own_pool());
  test::Variable one("TERRACE_POOL_DIR", "/a");
  REQUIRE(read_options(&options));
  CHECK(options.makes_own_pool());
  test::Variable daemon("TERRACE_DAEMON", "/usr/bin/terraced");
  REQUIRE(read_options(&options));
  CHECK_FALSE(options.makes_own_pool());
  test::Variable several("TERRACE_POOL_DIR", "/a,/b");
  REQUIRE(read_options(&options));
  CHECK(options.makes_own_pool());
}

TEST_CASE("A machine with few processors has no workers, one with many has up to four") {
  cpu_set_t all, one;
  REQUIRE(::sched_getaffinity(0, sizeof all, &all) == 0);
  CPU_ZERO(&one);
  for (int i = 0; CPU_COUNT(&one) == 0; ++i)
    if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
  Options options;
  REQUIRE(read_options(&options));
  CHECK(options.workers == static_cast<unsigned>(std::min(CPU_COUNT(&all) / 8, 4)));
  REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
  const bool good = read_options(&options);
  REQUIRE(::sched_setaffinity(0, sizeof all, &all) == 0);
  CHECK(good);
  CHECK(options.workers == 0);
  CHECK(refusal("TERRACE_WORKERS", "16").empty());
}

TEST_CASE("Sizes out of range are told their bound as people write it") {
  CHECK(refusal("TERRACE_DRAM", "31M").find("below the least of 32.0 MiB") != std::string::npos);
  CHECK(refusal("TERRACE_POOL_SIZE", "999T").find("above the most of 4.0 TiB") != std::string::npos);
  CHECK(refusal("TERRACE_POOL_SIZE", "4T").empty());
}

TEST_CASE("A daemon that could not be started again is refused at once, with the remedy") {
  const std::string line = refusal("TERRACE_DAEMON", "bin/terraced");
  INFO(line);
  CHECK(line.find("TERRACE_DAEMON=bin/terraced") != std::string::npos);
  CHECK(line.find("absolute path") != std::string::npos);
  CHECK(line.find('\n') == line.size() - 1);
  CHECK(refusal("TERRACE_DAEMON", "/usr/bin/terraced").empty());
}

TEST_CASE("An emulated GPU limits the heap of a job that offloads, and of no other") {
  const auto capacity = [](const std::string& device, const std::string& offload) {
    test::Variable gpu("TERRACE_GPU", device);
    test::Variable mode("TERRACE_OFFLOAD", offload);
    Options options;
    REQUIRE(read_options(&options));
    return options.device_bytes;
  };
  CHECK(capacity("emulated:64M", "activations") == 64ULL << 20);
  CHECK(capacity("emulated:2G,h2d=12G,latency=10us", "activations") == 2ULL << 30);
  CHECK(capacity("emulated:64M", "") == 0);
  CHECK(capacity("cuda", "activations") == 0);
  CHECK(capacity("", "activations") == 0);
}

TEST_CASE("An emulated GPU without a size is refused") {
  test::Variable mode("TERRACE_OFFLOAD", "activations");
  const std::string device =
      GENERATE(as<std::string>{}, "emulated:", "emulated:0", "emulated:big", "emulated:,h2d=1G",
               "emulated:1.5G", "emulated:8g", "emulated:" + std::string(40, '1') + "G");
  CHECK(refusal("TERRACE_GPU", device).find("TERRACE_GPU=" + device) != std::string::npos);
}

TEST_CASE("A path or a name that does not fit is refused, not cut") {
  const char* name = GENERATE("TERRACE_POOL_DIR", "TERRACE_SOCKET", "TERRACE_DAEMON", "TERRACE_LIMIT_CGROUP",
                              "TERRACE_JOB", "TERRACE_FAULT");
  const std::size_t most = std::strcmp(name, "TERRACE_JOB") == 0 ? 63 : 511;
  CHECK(refusal(name, std::string(most, '/')).empty());
  CHECK(refusal(name, std::string(most + 1, '/')).find(name) != std::string::npos);
}

TEST_CASE("An empty variable is as good as none") {
  const char* name = GENERATE("TERRACE_THRESHOLD", "TERRACE_DRAM", "TERRACE_MOVER", "TERRACE_POOL_DIR");
  CHECK(refusal(name, "").empty());
}

TEST_CASE("The kill switch wins over bad values") {
  test::Variable bad("TERRACE_DRAM", "nonsense");
  SECTION("1 disables") {
    test::Variable disable("TERRACE_DISABLE", "1");
    Options options;
    CHECK(read_options(&options));
    CHECK(options.disabled);
  }
  SECTION("so do other words") {
    test::Variable disable("TERRACE_DISABLE", GENERATE("true", "yes", "on"));
    Options options;
    CHECK(read_options(&options));
    CHECK(options.disabled);
  }
  SECTION("0 does not, nor its words") {
    test::Variable disable("TERRACE_DISABLE", GENERATE("0", "false", "no", "off"));
    CHECK_FALSE(refusal("TERRACE_DRAM", "nonsense").empty());
  }
}

}  // namespace terrace::liballoc
