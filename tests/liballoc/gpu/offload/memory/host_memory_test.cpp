#include "liballoc/gpu/offload/memory/host_memory.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

using terrace::liballoc::offload::host_memory_limit_bytes;

namespace {

class Machine {
 public:
  Machine() : root_(std::string(TERRACE_TEST_POOL_DIR) + "/machine-XXXXXX") {
    REQUIRE(::mkdtemp(root_.data()) != nullptr);
    write("/proc/meminfo", "MemTotal:       1000 kB\n");
  }
  ~Machine() { std::filesystem::remove_all(root_); }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  const std::string& root() const { return root_; }

 private:
  std::string root_;
};

}  // namespace

TEST_CASE("WithoutACgroupTheMachinesMemoryIsTheLimit") {
  const Machine machine;
  CHECK(host_memory_limit_bytes(machine.root()) == 1024000);
  CHECK(host_memory_limit_bytes(machine.root() + "/nowhere") == ~std::uint64_t{0});
}

TEST_CASE("TheTightestCgroupAroundUsIsTheLimit") {
  const Machine machine;
  machine.write("/proc/self/cgroup", "0::/a/b\n");
  machine.write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  machine.write("/sys/fs/cgroup/a/memory.max", "5000\n");
  CHECK(host_memory_limit_bytes(machine.root()) == 5000);
  machine.write("/proc/self/cgroup", "4:memory:/c\n3:cpu:/d\nnonsense\n");
  machine.write("/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "7000\n");
  CHECK(host_memory_limit_bytes(machine.root()) == 7000);
}
