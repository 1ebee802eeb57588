// Compressed runs whose pages are touched one by one, and others that are read from end to end.
#include <catch2/catch.hpp>
#include <vector>

#include "tests/liballoc/paging/pager_fixture.h"

using namespace terrace;
using namespace terrace::liballoc;

namespace {

constexpr std::size_t block_count = 3 * test::budget_runs;
constexpr std::size_t words_of_a_page = os::page_bytes / sizeof(std::uint64_t);

// CompressedBlocks of a run each, of which one word in four is not zero.
struct CompressedBlocks {
  explicit CompressedBlocks(test::PagerFixture& fixture) : f(fixture) {
    for (std::size_t n = 0; n < block_count; ++n) {
      at.push_back(f.allocate(run_bytes));
      f.with([&] {
        auto* const words = reinterpret_cast<std::uint64_t*>(at[n]);
        for (std::size_t i = 0; i < run_bytes / sizeof *words; i += 4) words[i] = word_of(n, i);
      });
    }
    f.settle();
  }
  static std::uint64_t word_of(std::size_t n, std::size_t i) { return (n + 1) * 0x9e3779b97f4a7c15 + i; }
  bool has(std::size_t n, std::size_t page) const {
    const auto* const words = reinterpret_cast<const std::uint64_t*>(at[n]);
    return words[page * words_of_a_page] == word_of(n, page * words_of_a_page);
  }
  std::size_t compressed() const {
    std::size_t count = 0;
    for (std::byte* const block : at) {
      const Run& r = f.pager.runs()[f.run_of(block)];
      count += r.has_slot && r.slot_bytes != run_bytes ? 1 : 0;
    }
    return count;
  }

  test::PagerFixture& f;
  std::vector<std::byte*> at;
};

}  // namespace

TEST_CASE("Where compressed runs come back for a page each, runs leave as they are", "[any_codec]") {
  test::ZvcDramPager f;
  if (!f.ready()) return;
  CompressedBlocks all(f);
  REQUIRE(all.compressed() > block_count / 2);
  std::size_t wrong = 0;
  f.with([&] {  // a page here, a page there, and some are written
    for (std::size_t turn = 0; turn < 8; ++turn)
      for (std::size_t i = 0; i < block_count; ++i) {
        const std::size_t n = i * 29 % block_count, page = (i * 37 + turn * 101) % (pages_per_run - 1) + 1;
        wrong += all.has(n, page) ? 0 : 1;
        all.at[n][(page + 1) * os::page_bytes - 1] = std::byte{1};
      }
  });
  f.settle();
  CHECK(all.compressed() < block_count / 4);
  CHECK(wrong == 0);
  f.check();
}

TEST_CASE("Compressed runs that are read from end to end leave compressed", "[any_codec]") {
  test::ZvcDramPager f;
  if (!f.ready()) return;
  CompressedBlocks all(f);
  std::size_t wrong = 0;
  f.with([&] {
    for (std::size_t pass = 0; pass < 3; ++pass)
      for (std::size_t n = 0; n < block_count; ++n) {
        for (std::size_t page = 0; page < pages_per_run; ++page) wrong += all.has(n, page) ? 0 : 1;
        all.at[n][os::page_bytes - 1] = static_cast<std::byte>(pass + 1);
      }
  });
  f.settle();
  CHECK(all.compressed() > block_count / 2);
  CHECK(wrong == 0);
  f.check();
}
