// The parser of the kernel's files on text that no kernel wrote.
#include "liballoc/base/kernel_text.h"

#include <catch2/catch.hpp>

namespace terrace::liballoc {

TEST_CASE("parse_number reads digits and nothing else") {
  std::uint64_t value = 7;
  CHECK(parse_number("0", &value));
  CHECK(value == 0);
  CHECK(parse_number("1234\n", &value));
  CHECK(value == 1234);
  CHECK(parse_number("12abc", &value));
  CHECK(value == 12);
  CHECK(parse_number("9223372036854771712\n", &value));
  CHECK(value == 9223372036854771712ULL);
  value = 7;
  const char* bad = GENERATE("", "max", "\n", " 1", "-1", "+1", "18446744073709551616",
                             "18446744073709551615", "99999999999999999999999999", "x1");
  INFO(bad);
  CHECK_FALSE(parse_number(bad, &value));
  CHECK(value == 7);
}

TEST_CASE("find_field finds whole keys at the beginning of lines") {
  std::uint64_t value = 7;
  CHECK(find_field("file 1\nactive_file 22\ninactive_file 333\n", "active_file", &value));
  CHECK(value == 22);
  CHECK(find_field("file 1\nactive_file 22\ninactive_file 333", "inactive_file", &value));
  CHECK(value == 333);
  CHECK(find_field("a 1\na 2\n", "a", &value));
  CHECK(value == 1);
}

TEST_CASE("find_kib reads the lines of /proc/meminfo and /proc/self/status") {
  std::uint64_t bytes = 7;
  CHECK(find_kib("SwapTotal:  8 kB\nSwapFree:       2048 kB\n", "SwapFree", &bytes));
  CHECK(bytes == 2048 * 1024);
  CHECK(find_kib("VmSwap:\t       0 kB\n", "VmSwap", &bytes));
  CHECK(bytes == 0);
  bytes = 7;
  const char* text =
      GENERATE("", "SwapFree", "SwapFree:", "SwapFree: \n", "SwapFree: 5\n", "SwapFree: 5 MB\n",
               "SwapFree 5 kB\n", "XSwapFree: 5 kB\n", " SwapFree: 5 kB\n", "SwapFree: -5 kB\n",
               "SwapFree: x kB\n", "SwapFree: 18014398509481984 kB\n", "SwapFree:\n5 kB\n");
  INFO(text);
  CHECK_FALSE(find_kib(text, "SwapFree", &bytes));
  CHECK(bytes == 7);
}

TEST_CASE("find_field is not taken in by hostile text") {
  std::uint64_t value = 7;
  const char* text = GENERATE("", "\n", "\n\n\n", "active_file", "active_file\n", "active_file \n",
                              "active_file x\n", "active_file -5\n", "active_files 5\n", "active_file\t5\n",
                              " active_file 5\n", "inactive_file 5\n", "x active_file 5\n",
                              "active_file  5\n", "active_fil", "active_file 99999999999999999999999\n");
  INFO(text);
  CHECK_FALSE(find_field(text, "active_file", &value));
  CHECK(value == 7);
}

}  // namespace terrace::liballoc
