// The pager's pure parts, each by itself: the budget, the line of those who wait, what is under way, and what
// patterns_test.cpp leaves of strides and successors.
#include <catch2/catch.hpp>
#include <vector>

#include "liballoc/paging/block_queue.h"
#include "liballoc/paging/memory/memory_budget.h"
#include "liballoc/paging/policy/strides.h"
#include "liballoc/paging/transfers/operations.h"
#include "liballoc/paging/waiting_line.h"
#include "tests/liballoc/paging/next_expected.h"

namespace terrace::liballoc {

TEST_CASE("A budget gives way by one run and returns to what was asked") {
  MemoryBudget budget;
  budget.share(4);
  budget.gain(4 * pages_per_run);
  CHECK(budget.has_room_for(0));
  CHECK_FALSE(budget.has_room_for(1));
  CHECK(budget.allowed_runs() == 0);
  budget.gain(1);
  CHECK(budget.is_over());
  CHECK(budget.excess_runs() == 1);
  budget.give_way();
  CHECK(budget.gave_way());
  CHECK(budget.runs() == 6);
  budget.lose(2 * pages_per_run);
  CHECK(budget.backed_runs() == 3);
  budget.return_to_asked();
  CHECK(budget.runs() == 4);
  CHECK(budget.allowed_runs() == 1);
  CHECK(budget.peak_bytes() == 4 * run_bytes + os::page_bytes);
}

TEST_CASE("What compressed runs take of a budget is not for pages") {
  MemoryBudget budget;
  budget.share(8);
  budget.gain(6 * pages_per_run);
  budget.keep(3);
  CHECK(budget.runs() == 5);
  CHECK(budget.is_over());
  CHECK(budget.held_bytes() == 9 * run_bytes);
  CHECK(budget.peak_bytes() == 9 * run_bytes);
  budget.give_way();
  budget.return_to_asked();
  CHECK(budget.runs() == 5);
  budget.keep(20);
  CHECK(budget.runs() == 1);  // pages cannot do with none
  budget.share(4);
  CHECK(budget.runs() == 1);
  budget.keep(0);
  CHECK(budget.runs() == 4);
  budget.share(0);
  CHECK(budget.runs() == 0);
}

TEST_CASE("Reads out of memory say nothing of how many the drive should have") {
  OperationTable operations;
  REQUIRE(operations.initialise() == 0);
  const auto read = [&](bool is_of_drive) {
    TierOperation* const first = operations.begin(TierOperation::Kind::read, 1);
    std::vector<TierOperation*> all{first};
    while (all.size() < operations.read_depth())
      all.push_back(operations.begin(TierOperation::Kind::read, 2));
    for (TierOperation* const op : all) {
      op->bytes = run_bytes;
      operations.note_arrived(*op);
      if (is_of_drive) operations.note_device_time(*op, 1'000'000 / operations.read_depth());
      operations.end(*op);
    }
  };
  const std::uint32_t before = operations.read_depth();
  for (int i = 0; i < 1000; ++i) read(false);
  CHECK(operations.read_depth() == before);
  bool has_changed = false;
  for (int i = 0; i < 1000; ++i, has_changed = has_changed || operations.read_depth() != before) read(true);
  CHECK(has_changed);
  CHECK(operations.reads_in_device() == 0);
}

TEST_CASE("Who waits is served in order, once") {
  Staging staging;
  RunTable runs(staging);
  REQUIRE(runs.initialise({nullptr, 3}) == 0);
  WaitingLine line(runs);
  REQUIRE(line.initialise() == 0);
  for (const std::uint32_t n : {2U, 0U, 2U, 1U, 0U}) line.join(n);
  REQUIRE(line.size() == 3);
  CHECK(line.front() == 2);
  line.pop();
  CHECK_FALSE(runs[2].queued);
  line.join(2);
  CHECK(line.at(0) == 0);
  CHECK(line.at(1) == 1);
  CHECK(line.at(2) == 2);
}

TEST_CASE("A producer is told once that the agents mark is reached") {
  constexpr std::uint32_t never = ~0U;  // granules
  BlockQueue queue;
  REQUIRE(queue.initialise() == 0);
  BlockEvent event;
  queue.push(event);
  CHECK_FALSE(queue.is_worth_a_look(never));
  REQUIRE(queue.pop(&event));
  CHECK_FALSE(queue.wake_after(2));
  queue.push(event);
  CHECK_FALSE(queue.is_worth_a_look(never));
  queue.push(event);
  queue.push(event);  // nobody asked in between
  CHECK(queue.is_worth_a_look(never));
  CHECK_FALSE(queue.is_worth_a_look(never));
  CHECK(queue.wake_after(3));  // what the agent has not read is there already
  CHECK_FALSE(queue.wake_after(4));
  CHECK_FALSE(queue.wake_after(0));  // not any more
  queue.push(event);
  CHECK_FALSE(queue.is_worth_a_look(never));
  CHECK(queue.marks_reached() == 1);
}

TEST_CASE("Three touches as far apart tell a stride, in either direction") {
  constexpr std::int64_t row = 5 * os::page_bytes + 64;
  const std::int64_t stride = row * GENERATE(1, -1);
  Strides strides;
  const std::uint64_t start = 1000 * os::page_bytes;
  const auto at = [&](std::int64_t i) { return start + static_cast<std::uint64_t>(stride * i); };
  CHECK(strides.touched(at(0)).count == 0);
  CHECK(strides.touched(at(1)).count == 0);
  const Strides::Ahead ahead = strides.touched(at(2));
  REQUIRE(ahead.count > 0);
  CHECK(ahead.first == at(2));
  CHECK(ahead.stride == stride);
  CHECK(strides.touched(at(1)).count == 0);  // one that was passed over
  // Those came; the next touch is behind them, and more is asked for each time.
  const Strides::Ahead further = strides.touched(at(2 + ahead.count));
  CHECK(further.first == at(2 + ahead.count));
  CHECK(further.count - 1 == 2 * (ahead.count - 1));
}

TEST_CASE("What followed last time is expected again") {
  const auto all_away = [](std::uint32_t) { return true; };
  ReadAhead ahead;
  REQUIRE(ahead.initialise(1000) == 0);
  for (const std::uint32_t n : {1U, 500U, 3U}) ahead.used(1, n, 0, all_away);
  ahead.clear();
  ahead.used(1, 1, 0, all_away);
  CHECK(test::next_expected(ahead) == 500);
  CHECK(test::next_expected(ahead) == 3);
}

TEST_CASE("An operation outlives its run and knows what it has to give back") {
  OperationTable operations;
  REQUIRE(operations.initialise() == 0);
  Run r;
  r.has_slot = true;
  r.slot_offset = 42 * run_bytes;
  r.slot_bytes = run_bytes;
  r.frame = 7;
  TierOperation* const read = operations.begin(TierOperation::Kind::read, 5);
  TierOperation* const piece = operations.begin(TierOperation::Kind::piece, 5);
  REQUIRE((read != nullptr && piece != nullptr));
  read->frame = 7;
  piece->pages.add(3);
  r.pieces = 1;
  CHECK(operations.brings(r, 5, 3));
  CHECK_FALSE(operations.brings(r, 5, 4));
  CHECK(operations.of_run(5) == read);
  operations.let_go(r, 5, true);
  CHECK(read->owns_frame);
  CHECK(r.frame == none);
  CHECK_FALSE(r.has_slot);
  CHECK(operations.of_run(5) == nullptr);
  CHECK(read->slot_offset == 42 * run_bytes);
  // The extent is free when the last of the two has ended.
  CHECK_FALSE(operations.ends_extent(*read));
  operations.end(*read);
  CHECK(operations.ends_extent(*piece));
  operations.end(*piece);
  CHECK(operations.reads() + operations.pieces() + operations.writes() == 0);
}

TEST_CASE("There are so many operations of a kind and no more") {
  OperationTable operations;
  REQUIRE(operations.initialise() == 0);
  std::uint32_t pieces = 0;
  while (operations.begin(TierOperation::Kind::piece, pieces) != nullptr) ++pieces;
  CHECK(pieces == OperationTable::most_pieces);
  CHECK(operations.begin(TierOperation::Kind::write, 0) != nullptr);
  operations.forget_all();
  CHECK(operations.pieces() == 0);
}

}  // namespace terrace::liballoc
