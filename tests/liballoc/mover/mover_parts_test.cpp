// What the kernel tells of pages, and what a mover that is closed refuses.
#include "liballoc/paging/mover/page_map.h"

#include <signal.h>

#include <catch2/catch.hpp>
#include <cerrno>

#include "tests/liballoc/mover/mover_fixture.h"

namespace terrace::liballoc {

using test::fill;
using test::Region;
using test::touch_one_page;

TEST_CASE("A page map tells which pages of a run are there") {
  const Region run(run_bytes);
  PageMap page_map;
  PageSet there;
  CHECK_FALSE(page_map.present(run.base(), &there));  // it is closed
  CHECK_FALSE(page_map.is_whole(run.base()));
  page_map.open();
  if (!page_map.is_open()) return;
  REQUIRE(page_map.present(run.base(), &there));
  CHECK(there.is_empty());
  touch_one_page(run.base(), 9);
  REQUIRE(page_map.present(run.base(), &there));
  CHECK(there == PageSet::of({9, 10}));
  CHECK_FALSE(page_map.is_whole(run.base()));
  CHECK(PageMap::has_page(run.base() + 9 * os::page_bytes + 1));
  CHECK_FALSE(PageMap::has_page(run.base() + 10 * os::page_bytes));
  fill(run.base(), 1);
  CHECK(page_map.is_whole(run.base()));
  page_map.close();
  CHECK_FALSE(page_map.is_open());
}

TEST_CASE("A page map tells whether a child shares all pages") {
  const Region run(run_bytes);
  PageMap page_map;
  page_map.open();
  if (!page_map.is_open()) return;
  touch_one_page(run.base(), 9);
  const PageSet page = PageSet::of({9, 10});
  CHECK_FALSE(page_map.all_shared(run.base(), page));
  const pid_t child = test::start_child([] { return ::pause(); });
  CHECK(page_map.all_shared(run.base(), page));
  CHECK_FALSE(page_map.all_shared(run.base(), PageSet::all()));  // the others are not there
  fill(run.base() + 9 * os::page_bytes, 2, os::page_bytes);      // now it is this process's own
  CHECK_FALSE(page_map.all_shared(run.base(), page));
  ::kill(child, SIGKILL);
  test::result_of(child);
  page_map.close();
}

TEST_CASE("A mover that is closed takes nothing, as nobody would learn of a touch") {
  const Region memory(2 * run_bytes);
  std::byte* const run = memory.base();
  std::byte* const frame = run + run_bytes;
  fill(run, 1);
  Mover mover;
  bool keeps_memory = true;
  PageSet taken;
  CHECK(mover.take(run, frame, false) != 0);
  CHECK(mover.take_pages(run, frame, PageSet::all(), &taken) != 0);
  CHECK(mover.put(frame, run, &keeps_memory) != 0);
  CHECK(mover.populate(frame) == ENOTSUP);
  CHECK(test::holds(run, 1));
}

}  // namespace terrace::liballoc
