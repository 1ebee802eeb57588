// What a line on standard error looks like, digit by digit, and that it is one write of bounded length.
#include "liballoc/base/message.h"

#include <fcntl.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdint>
#include <string>

#include "tests/liballoc/captured_stderr.h"

namespace terrace::liballoc {
namespace {

template <typename Write>
std::string line(Write write, Severity severity = Severity::warning) {
  test::CapturedStderr captured;
  {
    Message message(severity);
    write(message);
  }
  return captured.text();
}

std::string bytes(std::uint64_t value) {
  const std::string text = line([&](Message& m) { m.bytes(value); });
  return text.substr(9, text.size() - 10);  // without "terrace: " and the newline
}

}  // namespace

TEST_CASE("A message is one prefixed line") {
  CHECK(line([](Message& m) {
          m << "pool "
            << "full";
        }) == "terrace: pool full\n");
  CHECK(line([](Message& m) { m << "gone"; }, Severity::error) == "terrace: error: gone\n");
  CHECK(line([](Message&) {}) == "terrace: \n");
}

TEST_CASE("A message is written by one write") {
  int ends[2];
  REQUIRE(::pipe2(ends, O_DIRECT | O_NONBLOCK | O_CLOEXEC) == 0);  // packets: one read returns one write
  const int before = ::dup(STDERR_FILENO);
  ::dup2(ends[1], STDERR_FILENO);
  { Message(Severity::error) << "a " << std::uint64_t{1} << " b"; }
  ::dup2(before, STDERR_FILENO);
  char packet[600];
  const ssize_t got = ::read(ends[0], packet, sizeof packet);
  CHECK(std::string(packet, static_cast<std::size_t>(got > 0 ? got : 0)) == "terrace: error: a 1 b\n");
  for (const int fd : {before, ends[0], ends[1]}) ::close(fd);
}

TEST_CASE("Numbers are decimal") {
  CHECK(line([](Message& m) { m << std::uint64_t{0}; }) == "terrace: 0\n");
  CHECK(line([](Message& m) { m << std::uint64_t{1002}; }) == "terrace: 1002\n");
  CHECK(line([](Message& m) { m << ~std::uint64_t{0}; }) == "terrace: 18446744073709551615\n");
}

TEST_CASE("Addresses have twelve digits") {
  const auto address = [](std::uintptr_t value) {
    return line([&](Message& m) { m << reinterpret_cast<const void*>(value); });
  };
  CHECK(address(0) == "terrace: 0x000000000000\n");
  CHECK(address(0x7f00deadb000) == "terrace: 0x7f00deadb000\n");
}

TEST_CASE("Errors carry their number and name") {
  CHECK(line([](Message& m) { m.error(ENOSPC); }) == "terrace: errno 28 (ENOSPC)\n");
  CHECK(line([](Message& m) { m.error(EIO); }) == "terrace: errno 5 (EIO)\n");
  CHECK(line([](Message& m) { m.error(ENOTSUP); }) == "terrace: errno 95 (ENOTSUP)\n");
  CHECK(line([](Message& m) { m.error(EXDEV); }) == "terrace: errno 18 (see errno(3))\n");
}

TEST_CASE("Amounts of bytes are for people") {
  CHECK(bytes(0) == "0 B");
  CHECK(bytes(1023) == "1023 B");
  CHECK(bytes(1024) == "1.0 KiB");
  CHECK(bytes(1536) == "1.5 KiB");
  CHECK(bytes(2ULL << 20) == "2.0 MiB");
  CHECK(bytes(2ULL << 30) == "2.0 GiB");
  CHECK(bytes((1ULL << 40) + (1ULL << 39)) == "1.5 TiB");
  CHECK(bytes(4096ULL << 40) == "4096.0 TiB");
  CHECK(bytes(2ULL << 60) == "2097152.0 TiB");  // tenths of bytes would not fit into 64 bits
  CHECK(bytes(~std::uint64_t{0}) == "16777215.9 TiB");
}

TEST_CASE("A message that is too long is cut and still ends its line") {
  const std::string text(2000, 'x');
  const std::string written = line([&](Message& m) { m << text.c_str() << std::uint64_t{12345}; });
  CHECK(written.size() == 480);
  CHECK(written.substr(0, 12) == "terrace: xxx");
  CHECK(written.back() == '\n');
  CHECK(written.find('\n') == written.size() - 1);
}

TEST_CASE("The level decides what is written") {
  set_log_level(Severity::error);
  CHECK(line([](Message& m) { m << "w"; }, Severity::warning).empty());
  CHECK(line([](Message& m) { m << "e"; }, Severity::error) == "terrace: error: e\n");
  set_log_level(Severity::debug);
  CHECK(line([](Message& m) { m << "d"; }, Severity::debug) == "terrace: d\n");
  set_log_level(Severity::warning);
  CHECK(line([](Message& m) { m << "i"; }, Severity::info).empty());
}

}  // namespace terrace::liballoc
