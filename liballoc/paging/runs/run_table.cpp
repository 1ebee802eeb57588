#include "liballoc/paging/runs/run_table.h"

#include <array>
#include <cerrno>

#include "liballoc/base/os.h"

namespace terrace::liballoc {
namespace {

std::array<RunList*, 10> all(RunLists& l) {
  return {&l.idle,   &l.streamed, &l.hot,    &l.held,   &l.recycled,
          &l.staged, &l.probed,   &l.cached, &l.loaded, &l.stored};
}

}  // namespace

int RunTable::initialise(const HeapRange& heap) {
  heap_ = heap;
  runs_ = static_cast<Run*>(os::map_anonymous(std::size_t{heap.runs} * sizeof(Run), PROT_READ | PROT_WRITE));
  if (runs_ == nullptr || pages_.initialise(heap.runs) != 0) return ENOMEM;
  for (RunList* list : all(lists_)) list->attach(runs_);
  return 0;
}

void RunTable::forget_lists() {
  for (RunList* list : all(lists_)) {
    *list = RunList{};
    list->attach(runs_);
  }
  cached_pages_ = held_pages_ = 0;
  data_runs_ = 0;
}

const RunList* RunTable::list_of(const Run& r) const {
  switch (r.state) {
    case RunState::resident:
      if (r.live == 0) return &lists_.recycled;
      if (r.pins != 0) return nullptr;
      return r.turn == Turn::first ? &lists_.streamed : r.turn == Turn::last ? &lists_.hot : &lists_.idle;
    case RunState::staged:
      if (r.stuck) return nullptr;
      return r.probed ? &lists_.probed : r.held ? &lists_.held : &lists_.staged;
    case RunState::cached:
      return r.from_read && !r.late ? &lists_.loaded : &lists_.cached;
    case RunState::stored:
      return &lists_.stored;
    case RunState::empty:
    case RunState::writing:
    case RunState::reading:
    case RunState::lost:
      break;
  }
  return nullptr;
}

void RunTable::put_on(std::uint32_t n) {
  Run& r = runs_[n];
  data_runs_ += has_data(r) ? 1 : 0;
  r.arrival = arrivals_;
  auto* const list = const_cast<RunList*>(list_of(r));
  if (list == nullptr) return;
  r.listed_pages =
      r.frame == none ? std::uint16_t{0} : static_cast<std::uint16_t>(staging_.memory_of(r.frame));
  if (list == &lists_.cached) cached_pages_ += r.listed_pages;
  if (list == &lists_.held) held_pages_ += r.listed_pages;
  if (list != &lists_.idle || !r.cold) return list->push_back(n);
  r.arrival -= age_of_cold_;  // as if it had been idle for long
  list->push_front(n);
}

// From the list that it is on.
void RunTable::take_off(std::uint32_t n) {
  const Run& r = runs_[n];
  data_runs_ -= has_data(r) ? 1 : 0;
  if (r.list == nullptr) return;
  if (r.list == &lists_.cached) cached_pages_ -= r.listed_pages;
  if (r.list == &lists_.held) held_pages_ -= r.listed_pages;
  r.list->remove(n);
}

void RunTable::spare(std::uint32_t n) {
  Run& r = runs_[n];
  RunList* const list = r.list;
  if (list == nullptr) return;
  list->remove(n);
  r.arrival = arrivals_;
  list->push_back(n);
}

}  // namespace terrace::liballoc
