// What systemd's journal is sent, and when.
#include "daemon/base/journal_lines.h"

#include <fmt/format.h>
#include <spdlog/details/log_msg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <string>

using namespace terrace::daemon;

namespace {

std::string journal_line(spdlog::level::level_enum level, const std::string& text) {
  spdlog::memory_buf_t line;
  journal_lines()->clone()->format(spdlog::details::log_msg("terraced", level, text), line);
  return fmt::to_string(line);
}

}  // namespace

TEST_CASE("Each level has its priority in the journal") {
  CHECK(journal_line(spdlog::level::err, "cannot serve") == "<3>cannot serve\n");
  CHECK(journal_line(spdlog::level::warn, "no pool") == "<4>no pool\n");
  CHECK(journal_line(spdlog::level::info, "serving") == "<6>serving\n");
  CHECK(journal_line(spdlog::level::debug, "asked") == "<7>asked\n");
}

TEST_CASE("Only the stream that systemd names is the journal") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  struct stat status {};
  REQUIRE(::fstat(ends[1], &status) == 0);
  const std::string named = fmt::format("{}:{}", status.st_dev, status.st_ino);
  CHECK(is_journal(ends[1], named.c_str()));
  CHECK_FALSE(is_journal(ends[1], (named + "1").c_str()));  // inherited by a program with another stream
  CHECK_FALSE(is_journal(ends[1], nullptr));
  CHECK_FALSE(is_journal(-1, named.c_str()));
  ::close(ends[0]);
  ::close(ends[1]);
}
