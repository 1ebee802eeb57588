// What the kernel counts of a process, asked of the kernel itself.
#include "daemon/sessions/process/process_memory.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "tests/daemon/sessions/holding_process.h"
#include "tests/units.h"

using namespace terrace;
using namespace terrace::daemon;
using namespace terrace::tests;

TEST_CASE("what a process holds counts, and no more when it has given it up") {
  HoldingProcess process(64 * mib);
  const ProcessMemory memory(process.pid(), process.fd());
  const auto held = memory.resident_bytes();
  REQUIRE(held);
  CHECK(*held >= 64 * mib);
  process.give();
  CHECK(*memory.resident_bytes() <= *held - 64 * mib);
}

TEST_CASE("nothing is read of a process that has ended, whoever has its number") {
  HoldingProcess process(mib);
  const ProcessMemory memory(process.pid(), process.fd());
  REQUIRE(memory.resident_bytes());
  process.end();
  CHECK_FALSE(memory.resident_bytes());
  // The number is free now, so that it may be anybody's: here it is this process's.
  CHECK_FALSE(ProcessMemory(::getpid(), process.fd()).resident_bytes());
}

TEST_CASE("a process without a number, or without a pidfd, says nothing") {
  CHECK_FALSE(ProcessMemory().resident_bytes());
  CHECK_FALSE(ProcessMemory(0, 0).resident_bytes());
  CHECK_FALSE(ProcessMemory(::getpid(), -1).resident_bytes());
}

TEST_CASE("a status is read as the kernel writes it, and nothing else") {
  const auto with = [](const std::string& lines) { return resident_in_status("Name:\tjob\n" + lines); };
  CHECK(with("RssAnon:\t    2048 kB\nRssFile:\t 512 kB\nRssShmem:\t     4 kB\n") == 2052 * 1024);
  CHECK_FALSE(with(""));
  CHECK_FALSE(with("RssAnon:\t 2048 kB\n"));                    // of a zombie there is none at all
  CHECK_FALSE(with("RssAnon:\t 2048 kB\nRssShmem:\t 4"));       // cut off
  CHECK_FALSE(with("RssAnon:\t 2048 MB\nRssShmem:\t 4 kB\n"));  // another unit
  CHECK_FALSE(with("RssAnon:\t -1 kB\nRssShmem:\t 4 kB\n"));    // no number
  CHECK_FALSE(with("RssAnon:\t 18446744073709551615 kB\nRssShmem:\t 4 kB\n"));  // would not fit as bytes
  CHECK_FALSE(resident_in_status("Name:\tRssAnon:\t0 kB RssShmem:\t0 kB\n"));  // a name is no line of its own
}
