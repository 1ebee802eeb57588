// What a phase is known to be: births, deaths, what persists, and computing times.
#include "liballoc/lifetimes/period_table.h"

#include <catch2/catch.hpp>
#include <vector>

#include "liballoc/base/os.h"

namespace terrace::liballoc {
namespace {

class TableMemory {
 public:
  explicit TableMemory(std::uint32_t length) {
    memory_ = static_cast<std::byte*>(os::map_anonymous(PeriodTable::bytes, PROT_READ | PROT_WRITE));
    REQUIRE(memory_ != nullptr);
    table.use(memory_);
    table.begin(1, length);
  }
  ~TableMemory() { os::unmap(memory_, PeriodTable::bytes); }
  TableMemory(const TableMemory&) = delete;
  TableMemory& operator=(const TableMemory&) = delete;

  PeriodTable table;

 private:
  std::byte* memory_ = nullptr;
};

// Two objects, one within the other: born at 0 and 1, freed at 2 and 3.
void one_period(PeriodTable& table, std::uint32_t last_death = 3) {
  table.note_birth(0, 128, 1);
  table.note_birth(1, 256, 2);
  table.note_death(2, 1);
  table.note_death(last_death, 0);
  table.note_period(1'000'000, 100'000);
}

void probe_all(PeriodTable& table) { table[0].rounds = table[1].rounds = 1; }

}  // namespace

TEST_CASE("An object that dies where it died is planned for") {
  TableMemory m(4);
  one_period(m.table);
  CHECK_FALSE(m.table.is_planned(0));
  one_period(m.table);
  CHECK(m.table.is_planned(0));
  CHECK(m.table.is_planned(1));
  CHECK(m.table[0].death == 3);
  CHECK(m.table[1].runs == 2);
}

TEST_CASE("An object that dies elsewhere each time is not") {
  TableMemory m(6);
  for (std::uint32_t period = 0; period < 6; ++period) one_period(m.table, 3 + period % 3);
  CHECK_FALSE(m.table.is_planned(0));
  CHECK(m.table.is_planned(1));
}

TEST_CASE("A table is complete when all of its objects were followed") {
  TableMemory m(4);
  one_period(m.table);
  probe_all(m.table);
  CHECK_FALSE(m.table.is_complete());  // one period is not two
  one_period(m.table);
  CHECK(m.table.is_complete());
  const std::uint32_t weight = m.table.add_persistent(77, 5);
  CHECK_FALSE(m.table.is_complete());
  m.table[weight].rounds = 1;
  CHECK(m.table.is_complete());
}

TEST_CASE("What cannot be probed in time does not hold a plan up for ever") {
  TableMemory m(4);
  one_period(m.table);
  m.table.note_touch(0, {1, 1});
  m.table.note_touch(1, {1, 1});
  std::uint32_t periods = 1;
  for (; !m.table.is_complete() && periods < 100; ++periods) one_period(m.table);
  CHECK(periods == 3);
  m.table.add_persistent(77, 5);
  for (; !m.table.is_complete() && periods < 100; ++periods) one_period(m.table);
  CHECK(periods == 4);
}

TEST_CASE("A period without objects is not worth a plan") {
  TableMemory m(2);
  for (int period = 0; period < 30; ++period) {
    m.table.note_birth(0, 16, 0);
    m.table.note_death(1, 0);
    m.table.note_period(1'000'000, 0);
  }
  CHECK_FALSE(m.table.is_complete());
}

TEST_CASE("What persists has a number and gives it back") {
  TableMemory m(4);
  const std::uint32_t first = m.table.add_persistent(5, 1), second = m.table.add_persistent(6, 1);
  CHECK(PeriodTable::is_persistent(first));
  m.table.note_touch(first, {1, 2});
  m.table.drop_persistent(first);
  CHECK_FALSE(m.table.is_planned(first));
  CHECK(m.table.is_planned(second));
  const std::uint32_t third = m.table.add_persistent(7, 3);
  CHECK(third == first);
  CHECK(m.table[third].uses.size() == 0);
  CHECK(m.table[third].block == 7);
}

TEST_CASE("More persists than there is room for") {
  TableMemory m(4);
  std::uint32_t added = 0;
  while (m.table.add_persistent(added + 1, 1) != PeriodTable::none) ++added;
  CHECK(added == PeriodTable::most_persistent);
}

TEST_CASE("An object that is born late lives into the next period") {
  TableMemory m(10);
  m.table.note_birth(8, 128, 1);
  m.table.note_death(2, 8);
  m.table.note_death(2, 8);
  CHECK(m.table.is_alive_in(8, 9));
  CHECK(m.table.is_alive_in(8, 1));
  CHECK_FALSE(m.table.is_alive_in(8, 2));
  CHECK_FALSE(m.table.is_alive_in(8, 7));
}

TEST_CASE("Computing is the median of what was measured and the rest shares what is left") {
  TableMemory m(4);
  for (const std::uint64_t us : {100U, 120U, 9000U, 110U, 105U}) m.table.note_computing(0, us * 1000);
  m.table.note_computing(1, 50'000);
  m.table.note_period(1'000'000, 200'000);
  std::vector<std::uint64_t> ns(4);
  m.table.fill_computing(ns.data());
  CHECK(ns[0] / 1000 == Approx(110).margin(1));
  CHECK(ns[1] / 1000 == Approx(50).margin(1));
  CHECK(ns[2] / 1000 == Approx(320).margin(2));
  CHECK(ns[3] == ns[2]);
}

TEST_CASE("Other sizes are another period") {
  TableMemory a(4), b(4), c(4);
  one_period(a.table);
  one_period(b.table);
  CHECK(a.table.hash() == b.table.hash());
  b.table.note_birth(1, 512, 4);
  CHECK(a.table.hash() != b.table.hash());
  one_period(c.table);
  c.table.note_birth(2, 0, 0);
  CHECK(a.table.hash() != c.table.hash());
}

TEST_CASE("A table that was cleared knows nothing") {
  TableMemory m(4);
  one_period(m.table);
  one_period(m.table);
  m.table.add_persistent(9, 1);
  m.table.clear();
  m.table.begin(2, 4);
  CHECK_FALSE(m.table.is_planned(0));
  CHECK(m.table.persistent_end() == PeriodTable::most_events);
  CHECK(m.table.periods() == 0);
}

TEST_CASE("A period of most events is held") {
  TableMemory m(PeriodTable::most_events);
  for (int period = 0; period < 2; ++period) {
    for (std::uint32_t k = 0; k < PeriodTable::most_events / 2; ++k) m.table.note_birth(k, 128 + k % 7, 1);
    for (std::uint32_t k = 0; k < PeriodTable::most_events / 2; ++k)
      m.table.note_death(PeriodTable::most_events / 2 + k, k);
    m.table.note_period(1'000'000'000, 0);
  }
  for (std::uint32_t k = 0; k < PeriodTable::most_events / 2; ++k) {
    m.table.note_touch(k, {1, PeriodTable::most_events / 2 + k - 1});
    m.table[k].rounds = 1;
  }
  CHECK(m.table.is_complete());
  CHECK(m.table.is_planned(PeriodTable::most_events / 2 - 1));
}

}  // namespace terrace::liballoc
