#include "daemon/base/names.h"

#include <catch2/catch.hpp>

using namespace terrace::daemon;

TEST_CASE("a name neither steers a terminal nor turns the line around") {
  const auto clean = [](const std::string& text) { return clean_name(text.data(), text.size(), "none"); };
  CHECK(clean("r\u00e9seau \u7f51\u7edc \U0001f600") == "r\u00e9seau \u7f51\u7edc \U0001f600");
  CHECK(clean("a\x1b[2Jb\tc\x7f") == "a?[2Jb?c?");
  CHECK(clean("a\u009b2Jb") == "a?2Jb");
  CHECK(clean("a\x9b"
              "2Jb") == "a?2Jb");
  CHECK(clean("a\u202eb\u2066c\u200fd\u2028e") == "a?b?c?d?e");
  CHECK(clean("a\xe2\x80") == "a??");               // cut off
  CHECK(clean("\xc0\x9b\xed\xa0\x80") == "?????");  // no UTF-8: too long, a surrogate
  CHECK(clean(std::string("a\0b", 3)) == "a");
  CHECK(clean("") == "none");
}
