// The probe measures something, stays within its bounds, and says why when it cannot.
#include "tiers/probe/probe.h"

#include <catch2/catch.hpp>
#include <string>

#include "support.h"

using namespace terrace::tiers;
using namespace terrace::tiers::test;

TEST_CASE("Every figure of a probe is filled in") {
  ProbeOptions options{.file_bytes = 8 * mib, .random_reads = 50, .max_ns = 60'000'000'000};
  options.io = GENERATE(NvmeTier::Io::automatic, NvmeTier::Io::pread);
  ProbeResult result;
  REQUIRE(probe_directory(TERRACE_TEST_POOL_DIR, options, &result) == 0);
  CHECK(result.file_bytes == 8 * mib);
  CHECK(result.fresh_write_bytes_per_second > 0);
  CHECK(result.write_bytes_per_second > 0);
  CHECK(result.read_bytes_per_second > 0);
  CHECK(result.random_reads == 50);
  CHECK(result.read_latency_p50_ns > 0);
  CHECK(result.read_latency_p99_ns >= result.read_latency_p50_ns);
  CHECK_FALSE(std::string(result.io).empty());
}

TEST_CASE("A probe without time says so") {
  ProbeResult result;
  CHECK(probe_directory(TERRACE_TEST_POOL_DIR, {.file_bytes = mib, .max_ns = 0}, &result) == ETIMEDOUT);
  CHECK(result.file_bytes == 0);
}

TEST_CASE("Options of a probe are bounded") {
  ProbeResult result;
  CHECK(probe_directory(TERRACE_TEST_POOL_DIR, {.file_bytes = mib - 1}, &result) == EINVAL);
  CHECK(probe_directory(TERRACE_TEST_POOL_DIR, {.file_bytes = std::uint64_t{1} << 40}, &result) == EINVAL);
  CHECK(probe_directory(TERRACE_TEST_POOL_DIR, {.random_reads = 0}, &result) == EINVAL);
  CHECK(probe_directory(TERRACE_TEST_POOL_DIR, {.random_reads = 5000}, &result) == EINVAL);
  CHECK(probe_directory("/nonexistent/terrace", {}, &result) == ENOENT);
}

TEST_CASE("ProbeOfAFullDiskIsEnospc") {
  const int result = in_small_disk(4 * mib, [](const char* directory) {
    ProbeResult unused;
    return probe_directory(directory, {.file_bytes = 16 * mib}, &unused) == ENOSPC ? 0 : 1;
  });
  if (result == cannot_mount) return void(puts("SKIP: no permission to mount a tmpfs"));
  CHECK(result == 0);
}
