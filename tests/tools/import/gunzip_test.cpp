#include "tools/import/gunzip.h"

#include <zlib.h>

#include <catch2/catch.hpp>

namespace terrace::import {
namespace {

std::string gzip(const std::string& text) {
  z_stream z{};
  REQUIRE(deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&z, text.size()) + 64, '\0');
  std::string in = text;
  z.next_in = reinterpret_cast<Bytef*>(in.data());
  z.avail_in = static_cast<uInt>(in.size());
  z.next_out = reinterpret_cast<Bytef*>(packed.data());
  z.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
  packed.resize(z.total_out);
  deflateEnd(&z);
  return packed;
}

constexpr std::uint64_t limit = 1 << 20;

}  // namespace

TEST_CASE("What was packed is unpacked, members one after the other") {
  const std::string text = "a trace\n" + std::string(600'000, 'x');
  CHECK(*gunzip(gzip(text), limit) == text);
  CHECK(*gunzip(gzip("one,") + gzip("") + gzip("two"), limit) == "one,two");
  CHECK(gunzip(gzip(""), limit)->empty());
  CHECK(is_gzip(gzip("")));
  CHECK_FALSE(is_gzip("{\"format\""));
  CHECK_FALSE(is_gzip(""));
}

TEST_CASE("A bomb is refused at the limit") {
  const std::string bomb = gzip(std::string(16 << 20, '\0'));
  REQUIRE(bomb.size() < 32'000);
  CHECK(gunzip(bomb, limit).error == "the file unpacks to more than 1048576 bytes");
  CHECK(gunzip(gzip(std::string(limit, 'x')), limit));
  CHECK_FALSE(gunzip(gzip(std::string(limit + 1, 'x')), limit));
}

TEST_CASE("Every truncation is refused") {
  const std::string whole = gzip("some text that is long enough to be packed, packed, packed");
  for (std::size_t n = 0; n < whole.size(); ++n) {
    INFO(n);
    CHECK_FALSE(gunzip(whole.substr(0, n), limit));
  }
  CHECK(gunzip(whole.substr(0, 20), limit).error == "the gzip file was cut off");
}

TEST_CASE("Damage and trailing bytes are refused") {
  std::string damaged = gzip("some text");
  damaged[damaged.size() - 6] ^= 1;  // of the checksum
  CHECK(gunzip(damaged, limit).error.find("not valid gzip") == 0);
  CHECK(gunzip("no gzip at all", limit).error.find("not valid gzip") == 0);
  CHECK_FALSE(gunzip(gzip("some text") + "rest", limit));
}

}  // namespace terrace::import
