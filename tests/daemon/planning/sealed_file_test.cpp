#include "daemon/planning/sealed_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "liballoc/wire/period/period.h"
#include "tests/daemon/temporary_directory.h"

namespace terrace::daemon {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::Equals;

constexpr int all_seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;

UniqueFd memory_file(std::uint64_t bytes, int seals) {
  UniqueFd fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0);
  if (seals != 0) REQUIRE(::fcntl(fd.get(), F_ADD_SEALS, seals) == 0);
  return fd;
}

PeriodFile looked_at(UniqueFd fd, std::uint64_t image_bytes) { return look_at_period_file(&fd, image_bytes); }

}  // namespace

TEST_CASE("A sealed file that was made is found fine and reads as it was written") {
  const std::string content = "sixteen bytes ok";
  auto made = make_sealed_file(content);
  INFO(made.error);
  REQUIRE(made);
  CHECK(::write(made->get(), "x", 1) < 0);
  CHECK(::ftruncate(made->get(), 4) < 0);
  CHECK(::fcntl(made->get(), F_ADD_SEALS, F_SEAL_SHRINK) < 0);
  const PeriodFile file = looked_at(std::move(*made), content.size());
  CHECK_THAT(file.problem, Equals(""));
  const std::vector<std::byte> bytes = read_file(file);
  CHECK(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) == content);
}

TEST_CASE("Each seal of a period is needed and its size must fit") {
  CHECK_THAT(looked_at(UniqueFd(), 128).problem, Contains("without a memfd"));
  for (const int missing : {F_SEAL_WRITE, F_SEAL_SHRINK, F_SEAL_GROW})
    CHECK_THAT(looked_at(memory_file(128, all_seals & ~missing), 128).problem, Contains("not sealed"));
  CHECK_THAT(looked_at(memory_file(127, all_seals), 128).problem, Contains("shorter"));
  CHECK_THAT(looked_at(memory_file(wire::most_period_bytes + 1, all_seals), 128).problem, Contains("larger"));
  CHECK_THAT(looked_at(memory_file(wire::most_period_bytes, all_seals), 128).problem, Equals(""));
}

TEST_CASE("A file of a disk is no period") {
  const tests::TemporaryDirectory directory;
  const std::string path = directory / "file";
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  REQUIRE(::ftruncate(fd.get(), 4096) == 0);
  const std::string problem = looked_at(std::move(fd), 128).problem;
  CHECK_THAT(problem, Contains("without a memfd") || Contains("not sealed"));  // the second on tmpfs
}

}  // namespace terrace::daemon
