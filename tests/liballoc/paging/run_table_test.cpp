// The run table against a model: every state with every mark that decides on a list, from each to each, and
// long sequences of changes of several runs, after each of which lists, order and counts are compared.
#include "liballoc/paging/runs/run_table.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "liballoc/paging/mover/mover.h"

namespace terrace::liballoc {
namespace {

constexpr std::uint32_t run_count = 8;
constexpr std::uint32_t age_of_cold = 100;
constexpr std::array states{RunState::empty,  RunState::resident, RunState::staged,  RunState::writing,
                            RunState::cached, RunState::stored,   RunState::reading, RunState::lost};

// What of a record decides where it belongs.
struct Marks {
  RunState state = RunState::empty;
  Turn turn = Turn::usual;
  bool live = false, pinned = false, cold = false, stuck = false, held = false, from_read = false,
       late = false, probed = false;

  void give(Run& r) const {
    r.state = state;
    r.live = live ? 1 : 0;
    r.pins = pinned ? 1 : 0;
    r.turn = turn;
    r.cold = cold;
    r.stuck = stuck;
    r.held = held;
    r.from_read = from_read;
    r.late = late;
    r.probed = probed;
  }
  bool has_frame() const {
    return state == RunState::staged || state == RunState::cached || state == RunState::writing ||
           state == RunState::reading;
  }
  bool has_data() const { return live && state != RunState::empty; }
};

// All that can be.
std::vector<Marks> all_marks() {
  std::vector<Marks> all;
  for (const RunState state : states)
    for (const Turn turn : {Turn::first, Turn::usual, Turn::last})
      for (unsigned bits = 0; bits < 256; ++bits) {
        const auto has = [&](unsigned bit) { return (bits >> bit & 1U) != 0; };
        if (has(7) && state != RunState::staged) continue;  // a probe is staged
        all.push_back({state, turn, has(0), has(1), has(2), has(3), has(4), has(5), has(6), has(7)});
      }
  return all;
}

enum class Listed : std::size_t {
  idle,
  streamed,
  hot,
  held,
  recycled,
  staged,
  cached,
  loaded,
  stored,
  probed,
  count,
  nowhere = count
};
constexpr auto lists = static_cast<std::size_t>(Listed::count);
constexpr std::array<const char*, lists> list_names{"idle",   "streamed", "hot",    "held",   "recycled",
                                                    "staged", "cached",   "loaded", "stored", "probed"};

// The table's rules once more, as sentences.
Listed list_of(const Marks& m) {
  if (m.state == RunState::resident && !m.live) return Listed::recycled;
  if (m.state == RunState::resident && m.pinned) return Listed::nowhere;
  if (m.state == RunState::resident)
    return m.turn == Turn::first ? Listed::streamed : m.turn == Turn::last ? Listed::hot : Listed::idle;
  if (m.state == RunState::staged && m.stuck) return Listed::nowhere;
  if (m.state == RunState::staged) return m.probed ? Listed::probed : m.held ? Listed::held : Listed::staged;
  if (m.state == RunState::cached) return m.from_read && !m.late ? Listed::loaded : Listed::cached;
  return m.state == RunState::stored ? Listed::stored : Listed::nowhere;
}

class RunModel {
 public:
  using Members = std::vector<std::uint32_t>;

  void change(std::uint32_t n, const Marks& to) {
    leave(n);
    marks_[n] = to;
    const Listed list = list_of(to);
    if (list == Listed::nowhere) return;
    Members& members = lists_[static_cast<std::size_t>(list)];
    members.insert(list == Listed::idle && to.cold ? members.begin() : members.end(), n);
  }
  void spare(std::uint32_t n) {
    const Listed list = list_of(marks_[n]);
    if (list == Listed::nowhere) return;
    leave(n);
    lists_[static_cast<std::size_t>(list)].push_back(n);
  }
  const Members& members(Listed list) const { return lists_[static_cast<std::size_t>(list)]; }
  std::uint32_t data_runs() const {
    return static_cast<std::uint32_t>(
        std::count_if(marks_.begin(), marks_.end(), [](const Marks& m) { return m.has_data(); }));
  }

 private:
  void leave(std::uint32_t n) {
    for (Members& members : lists_)
      members.erase(std::remove(members.begin(), members.end(), n), members.end());
  }
  std::array<Marks, run_count> marks_;
  std::array<Members, lists> lists_;
};

class TableFixture {
 public:
  TableFixture() {
    // Only its accounts are used: no mover is open, and no page moves.
    static_cast<void>(staging_.initialise(run_count, &mover_));
    for (std::uint32_t frame = 0; frame < run_count; ++frame) staging_.note_memory(frame, frame + 1, true);
    REQUIRE(table.initialise({nullptr, run_count}) == 0);
    table.set_age_of_cold(age_of_cold);
    for (std::uint32_t n = 0; n < run_count; ++n) table[n] = Run{};
  }
  void change(std::uint32_t n, const Marks& to) {
    {
      const RunTable::Change scope(table, n);
      to.give(table[n]);
      table[n].frame = to.has_frame() ? n : none;
    }
    model.change(n, to);
  }
  void compare() {
    const RunLists& l = table.lists();
    const std::array<const RunList*, lists> all{&l.idle,   &l.streamed, &l.hot,    &l.held,   &l.recycled,
                                                &l.staged, &l.cached,   &l.loaded, &l.stored, &l.probed};
    for (std::size_t i = 0; i < lists; ++i) {
      const RunModel::Members& members = model.members(static_cast<Listed>(i));
      std::uint32_t n = all[i]->front();
      for (const std::uint32_t member : members) {
        if (n != member) FAIL("the list " << list_names[i]);
        n = table[n].next;
      }
      if (n != none || all[i]->size() != members.size()) FAIL("the length of the list " << list_names[i]);
      if (!members.empty() && all[i]->back() != members.back()) FAIL("the end of the list " << list_names[i]);
    }
    const auto memory = [&](Listed list) {
      std::uint64_t pages = 0;
      for (const std::uint32_t n : model.members(list)) pages += n + 1;
      return pages;
    };
    if (table.cached_pages() != memory(Listed::cached) || table.held_pages() != memory(Listed::held))
      FAIL("memory of a list");
    if (table.data_runs() != model.data_runs()) FAIL("the count of runs with data");
  }

 private:
  Mover mover_;
  Staging staging_;

 public:
  RunTable table{staging_};
  RunModel model;
};

}  // namespace

TEST_CASE("A run is on the list that its marks say, whatever they were before") {
  const std::vector<Marks> all = all_marks();
  TableFixture f;
  Marks idle;
  idle.state = RunState::resident;
  idle.live = true;
  f.change(1, idle);
  for (const Marks& from : all)
    for (const Marks& to : all) {
      f.change(0, from);
      f.change(0, to);
      f.compare();
    }
}

TEST_CASE("Lists keep their order through long sequences of changes") {
  const std::vector<Marks> all = all_marks();
  std::mt19937 random(GENERATE(1U, 2U, 3U));
  TableFixture f;
  for (int step = 0; step < 100'000; ++step) {
    const std::uint32_t n = random() % run_count;
    if (random() % 8 == 0) {
      f.table.spare(n);
      f.model.spare(n);
    } else {
      f.change(n, all[random() % all.size()]);
    }
    if (random() % 4 == 0) f.table.note_arrival();
    f.compare();
  }
}

TEST_CASE("What is cold counts as old") {
  TableFixture f;
  for (std::uint32_t i = 0; i < 2 * age_of_cold; ++i) f.table.note_arrival();
  Marks cold;
  cold.state = RunState::resident;
  cold.live = cold.cold = true;
  f.change(3, cold);
  CHECK(f.table.age(3) == age_of_cold);
  f.table.note_arrival();
  CHECK(f.table.age(3) == age_of_cold + 1);
  f.table.spare(3);
  CHECK(f.table.age(3) == 0);
}

}  // namespace terrace::liballoc
