// The record of what was written to a drive: what it says comes back, what is not ours is refused, and days
// begin as the clock says, unless it goes back.
#include "tiers/records/endurance.h"

#include <catch2/catch.hpp>
#include <random>

using namespace terrace::records;

namespace {

Endurance some_record() {
  Endurance written{20000, 900, {}};
  written.charge(1000, 60);
  written.charge(1001, 40);
  return written;
}

}  // namespace

TEST_CASE("a record comes back as it was") {
  const Endurance written = some_record();
  CHECK(written.today_bytes() == 100);
  CHECK(written.total_bytes == 1000);
  CHECK(decode_endurance(encode_endurance(written)) == written);
  CHECK(decode_endurance(encode_endurance(Endurance())) == Endurance());
}

TEST_CASE("every changed bit and every other length of a record is noticed") {
  std::string bytes = encode_endurance(some_record());
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    CHECK_FALSE(decode_endurance(bytes));
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
  }
  for (std::size_t size = 0; size < bytes.size(); ++size)
    CHECK_FALSE(decode_endurance(bytes.substr(0, size)));
  CHECK_FALSE(decode_endurance(bytes + "x"));
  CHECK_FALSE(decode_endurance("TREL"));
}

TEST_CASE("a record with a right sum and amounts that cannot be is refused") {
  Endurance written = some_record();
  SECTION("more today than ever") { written.total_bytes = 99; }
  SECTION("more than any drive") { written.total_bytes = most_written_bytes + 1; }
  SECTION("a sum that overflows") {
    written.today[1] = ~std::uint64_t{0} - 50;
    written.total_bytes = most_written_bytes;
  }
  CHECK_FALSE(decode_endurance(encode_endurance(written)));
}

TEST_CASE("another day begins at 0 and the total goes on") {
  Endurance written = some_record();
  written.begin_day(20000);
  CHECK(written == some_record());
  written.begin_day(20001);
  CHECK(written.today_bytes() == 0);
  CHECK(written.total_bytes == 1000);
  CHECK(written.day == 20001);
}

TEST_CASE(
    "a clock that goes back does not make bytes disappear and one that was ahead does not end the days") {
  Endurance written = some_record();
  written.begin_day(19999);
  CHECK(written == some_record());
  written.begin_day(19000);  // then it was ahead
  CHECK(written.today_bytes() == 100);
  CHECK(written.day == 19000);
  written.begin_day(19001);
  CHECK(written.today_bytes() == 0);
}

TEST_CASE("what is given back was charged today and users beyond the room are counted together") {
  Endurance written;
  for (std::uint32_t user = 0; user < 2 * most_writers; ++user) written.charge(user, 10);
  CHECK(written.today.size() == most_writers);
  CHECK(written.today_bytes() == 20 * most_writers);
  written.give_back(0, 4);
  CHECK(written.today.at(0) == 6);
  written.give_back(0, 400);
  CHECK(written.today.at(0) == 0);
  written.give_back(2 * most_writers - 1, 10);  // of those that are counted together
  CHECK(written.today_bytes() == 20 * most_writers - 20);
  CHECK(written.total_bytes == written.today_bytes());
  CHECK(decode_endurance(encode_endurance(written)) == written);
  Endurance full = written;
  full.today.erase(nobody);
  full.today[nobody - 1] = 1;  // a record of ours keeps room for nobody
  CHECK_FALSE(decode_endurance(encode_endurance(full)));
  written.charge(7, ~std::uint64_t{0});
  CHECK(written.total_bytes == most_written_bytes);
  CHECK(decode_endurance(encode_endurance(written)) == written);
}

TEST_CASE("bytes that are anything are a record or none") {
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = encode_endurance(some_record());
    for (int changes = 0; changes < 3; ++changes)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    if (const auto decoded = decode_endurance(bytes)) CHECK(encode_endurance(*decoded) == bytes);
  }
}
