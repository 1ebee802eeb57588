// A program may have so many mappings (vm.max_map_count): what is away takes none of its own, however it is
// scattered.
#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "tests/liballoc/paging/pager_fixture.h"

namespace terrace::liballoc {
namespace {

std::size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t lines = 0;
  for (std::string line; std::getline(maps, line);) ++lines;
  return lines;
}

}  // namespace

TEST_CASE("Scattered evictions take no mapping each") {
  test::DramPager f(MoverKind::move, 128);
  if (!f.ready()) return;
  std::byte* const block = f.allocate_filled(100 * run_bytes, 1);
  const std::size_t before = mappings();
  for (std::size_t n = 0; n < 100; n += 2) f.page_out(block + n * run_bytes);
  for (std::size_t n = 0; n < 100; n += 2) REQUIRE(f.state(block + n * run_bytes) == RunState::stored);
  CHECK(mappings() < before + 8);
  CHECK(f.reads(block, 1, 100 * run_bytes));
}

}  // namespace terrace::liballoc
