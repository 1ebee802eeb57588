// The NVM tier: conformance over a directory (works anywhere), over NUMA nodes (of any kind: the rule is the
// same) and under an adaptor; what it does in a place that is full.
#include "tiers/memory/nvm_tier.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "support.h"
#include "tier_conformance.h"
#include "tiers/adaptors/paced_adaptor.h"
#include "tiers/memory/nvm_file.h"

using namespace terrace::tiers;
using namespace terrace::tiers::test;

namespace {

int open_in(NvmTier& tier, const char* directory, std::uint64_t capacity, std::size_t depth = 16) {
  int fd = -1;
  if (const int error = open_nvm_in_directory(directory, &fd)) return error;
  const int error = tier.open(fd, capacity, depth);
  if (error != 0) ::close(fd);
  return error;
}

NodeSet first_node() {
  NodeSet nodes;
  nodes.add(0);
  return nodes;
}

int open_on_first_node(NvmTier& tier, std::uint64_t capacity) {
  int fd = -1;
  if (const int error = open_nvm_on_nodes(first_node(), capacity, &fd)) return error;
  const int error = tier.open(fd, capacity, 16);
  if (error != 0) ::close(fd);
  return error;
}

struct InDirectory : Subject {
  InDirectory(std::uint64_t capacity, const char* directory) {
    REQUIRE(open_in(nvm_, directory, capacity) == 0);
  }
  Tier& tier() override { return nvm_; }
  NvmTier nvm_;
};

struct OnNodes : Subject {
  explicit OnNodes(std::uint64_t capacity) { REQUIRE(open_on_first_node(nvm_, capacity) == 0); }
  Tier& tier() override { return nvm_; }
  NvmTier nvm_;
};

struct Paced : Subject {
  explicit Paced(std::uint64_t capacity) { REQUIRE(open_in(nvm_, "/dev/shm", capacity) == 0); }
  Tier& tier() override { return paced_; }
  NvmTier nvm_;
  PacedAdaptor paced_{nvm_, std::uint64_t{8} << 30};
};

bool has_policies() {
  int fd = -1;
  const int error = open_nvm_on_nodes(first_node(), mib, &fd);
  if (error == 0) ::close(fd);
  return error == 0;
}

// A sysfs of the test's own.
class FakeSysfs {
 public:
  ~FakeSysfs() { std::filesystem::remove_all(root_.path() + std::string("/devices")); }
  void write(const std::string& name, const char* text) {
    const std::filesystem::path path = root_.path() + std::string("/devices/") + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  const char* path() const { return root_.path(); }

 private:
  TemporaryDirectory root_;
};

NodeSet nodes(const char* list) {
  NodeSet set;
  REQUIRE(set.read(list));
  return set;
}

}  // namespace

TEST_CASE("NvmInADirectory conforms") {
  const char* const directory = GENERATE(TERRACE_TEST_POOL_DIR, "/dev/shm");
  check_conformance(
      [&](std::uint64_t capacity) { return std::make_unique<InDirectory>(capacity, directory); });
}

TEST_CASE("NvmOnNodes conforms") {
  if (!has_policies()) {
    puts("SKIP: this machine lets nobody say on which NUMA nodes memory lies");
    return;
  }
  check_conformance([](std::uint64_t capacity) { return std::make_unique<OnNodes>(capacity); });
}

TEST_CASE("PacedNvm conforms") {
  check_conformance([](std::uint64_t capacity) { return std::make_unique<Paced>(capacity); });
}

TEST_CASE("A directory that is none and a capacity out of range are refused, and nothing stays open") {
  const int before = open_descriptors();
  NvmTier tier;
  CHECK(open_in(tier, "/nonexistent/terrace", mib) == ENOENT);
  CHECK(open_in(tier, TERRACE_TEST_POOL_DIR, 0) == EINVAL);
  CHECK(tier.open(0, mib, 16) == EINVAL);  // a terminal, a pipe, or /dev/null
  CHECK(open_descriptors() == before);
  CHECK(open_in(tier, TERRACE_TEST_POOL_DIR, mib) == 0);
  CHECK(open_in(tier, TERRACE_TEST_POOL_DIR, mib) == EBUSY);
  tier.close();
  CHECK(open_descriptors() == before);
}

TEST_CASE("FullNvmIsEnospcAndWhatLiesThereIsRight") {
  const int result = in_small_disk(40 * mib, [](const char* directory) {
    NvmTier tier;
    if (open_in(tier, directory, 64 * mib) != 0) return 1;
    std::vector<Extent> all;
    Extent extent;
    int error = 0;
    while ((error = tier.reserve(2 * mib, &extent)) == 0) {
      Buffer buffer(2 * mib);
      buffer.fill(all.size());
      if (write(tier, extent, buffer) != 0) return 2;
      all.push_back(extent);
      if (all.size() > 64) return 3;
    }
    if (error != ENOSPC || all.size() < 16) return 4;
    for (std::size_t i = 0; i < all.size(); ++i) {
      Buffer buffer(2 * mib);
      if (read(tier, all[i], buffer) != 0 || !buffer.holds(i)) return 5;
    }
    tier.release(all.back());  // its place is there still
    return tier.reserve(2 * mib, &extent) == 0 && extent == all.back() ? 0 : 6;
  });
  if (result == cannot_mount) {
    puts("SKIP: no file system can be mounted here");
    return;
  }
  CHECK(result == 0);
}

TEST_CASE("A place that was full is asked again when others may have left it") {
  const int result = in_small_disk(24 * mib, [](const char* directory) {
    const std::string other = std::string(directory) + "/other";
    {
      std::ofstream file(other);
      file << std::string(20 * mib, 'x');
    }
    NvmTier tier;
    if (open_in(tier, directory, 64 * mib) != 0) return 1;
    Extent extent;
    if (tier.reserve(8 * mib, &extent) != ENOSPC) return 2;
    ::unlink(other.c_str());
    for (int i = 0; i < 2000; ++i)
      if (tier.reserve(8 * mib, &extent) == 0) return i > 0 ? 0 : 3;  // not by each extent
    return 4;
  });
  if (result == cannot_mount) {
    puts("SKIP: no file system can be mounted here");
    return;
  }
  CHECK(result == 0);
}

TEST_CASE("The rule of a file on nodes is the file's, and what is stored is no memory of the process") {
  if (!has_policies()) {
    puts("SKIP: this machine lets nobody say on which NUMA nodes memory lies");
    return;
  }
  int fd = -1;
  REQUIRE(open_nvm_on_nodes(first_node(), 64 * mib, &fd) == 0);
  CHECK(nodes_of(fd) == first_node());
  CHECK_FALSE(is_dax(fd));
  NvmTier tier;
  REQUIRE(tier.open(fd, 64 * mib) == 0);
  const auto shared_memory = [] {
    std::ifstream about("/proc/self/status");
    for (std::string word; about >> word;)
      if (std::uint64_t size = 0; word == "RssShmem:" && about >> size) return size;
    return std::uint64_t{0};
  };
  const std::uint64_t before = shared_memory();
  Extent extent;
  REQUIRE(tier.reserve(32 * mib, &extent) == 0);
  Buffer buffer(32 * mib);
  buffer.fill(1);
  REQUIRE(write(tier, extent, buffer) == 0);
  CHECK(shared_memory() == before);
  CHECK(tier.bytes_on(Medium::nvm) == 32 * mib);
  CHECK(tier.bytes_on(Medium::dram) == 0);
  CHECK(tier.taken_bytes() == 32 * mib);
  int plain = -1;
  REQUIRE(open_nvm_in_directory(TERRACE_TEST_POOL_DIR, &plain) == 0);
  CHECK(nodes_of(plain).is_empty());
  ::close(plain);
}

TEST_CASE("A limit on the size of files is an error and no signal") {
  if (!has_policies()) {
    puts("SKIP: this machine lets nobody say on which NUMA nodes memory lies");
    return;
  }
  CHECK(in_child([] {
          NvmTier tier;
          if (open_on_first_node(tier, 64 * mib) != 0) return 1;
          const rlimit low{8 * mib, 8 * mib};
          ::setrlimit(RLIMIT_FSIZE, &low);
          Extent extent;
          if (tier.reserve(16 * mib, &extent) != EFBIG) return 2;
          int fd = -1;
          return open_nvm_on_nodes(first_node(), 64 * mib, &fd) == EFBIG ? 0 : 3;
        }) == 0);
}

TEST_CASE("Lists of nodes are read as sysfs writes them, and nothing else is") {
  NodeSet set;
  REQUIRE(set.read("1-3,6\n"));
  for (const unsigned node : {1U, 2U, 3U, 6U}) CHECK(set.has(node));
  CHECK_FALSE(set.has(0));
  CHECK_FALSE(set.has(5));
  for (const char* bad : {"", "\n", "-1", "1-", "3-1", "1,,2", "1,", "a", "1024", "99999999999", "1 "}) {
    INFO(bad);
    NodeSet other = set;
    CHECK_FALSE(other.read(bad));
    CHECK(other == set);
  }
}

TEST_CASE("Slow nodes are those without a processor that rank below the processors' memory") {
  FakeSysfs sysfs;
  CHECK(slow_nodes(sysfs.path()).is_empty());  // nothing is known
  sysfs.write("system/node/has_memory", "0-3\n");
  sysfs.write("system/node/has_cpu", "0-1\n");
  CHECK(slow_nodes(sysfs.path()) == nodes("2-3"));                     // a kernel that does not rank them
  sysfs.write("virtual/memory_tiering/memory_tier2/nodelist", "3\n");  // faster, such as HBM
  sysfs.write("virtual/memory_tiering/memory_tier4/nodelist", "0-1\n");
  sysfs.write("virtual/memory_tiering/memory_tier22/nodelist", "2\n");
  CHECK(slow_nodes(sysfs.path()) == nodes("2"));
  sysfs.write("virtual/memory_tiering/memory_tier4/nodelist", "0-2\n");  // as fast
  CHECK(slow_nodes(sysfs.path()).is_empty());
}

TEST_CASE("What nodes have free is what sysfs says of each") {
  FakeSysfs sysfs;
  sysfs.write("system/node/node1/meminfo",
              "Node 1 MemTotal:  9000 kB\nNode 1 MemFree:   100 kB\nNode 1 Inactive(file):   20 kB\n");
  sysfs.write("system/node/node2/meminfo", "Node 2 MemFree:    7 kB\n");
  CHECK(free_bytes(nodes("1"), sysfs.path()) == 120 * kib);
  CHECK(free_bytes(nodes("1-3"), sysfs.path()) == 127 * kib);
  CHECK(free_bytes(nodes("0"), sysfs.path()) == 0);
}
