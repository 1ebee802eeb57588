// The runs: their records, the lists that order them, and where the pages of each lie.
//
// A run is on the list that its record says (list_of), which a change of the record may change. So every
// change is made inside a Change: it takes the run off its list, and when it ends puts it on the one that it
// belongs on then, and the counts agree at both ends. Belongs to who holds the gate.
#pragma once

#include <cstdint>

#include "liballoc/paging/memory/staging.h"
#include "liballoc/paging/runs/heap_range.h"
#include "liballoc/paging/runs/page_table.h"
#include "liballoc/paging/runs/run.h"

namespace terrace::liballoc {

struct RunLists {
  RunList idle;      // resident, live, unpinned: oldest arrival first
  RunList streamed;  // the same, to leave before those
  RunList hot;       // the same, to leave after those
  RunList held;      // in their frames, and to go back where they are touched: oldest first
  RunList recycled;  // resident, no live block: oldest free first
  RunList staged;    // waiting to be written
  RunList probed;    // in their frames to see when they are touched: oldest first
  RunList cached;    // on the tier, still in a frame: oldest eviction first
  RunList loaded;    // read ahead, in a frame: soonest expected first
  RunList stored;    // on the tier only: oldest eviction first
};

class RunTable {
 public:
  // `staging` tells how much memory a run's frame has.
  constexpr explicit RunTable(const Staging& staging) : staging_(staging) {}
  // 0 or ENOMEM.
  int initialise(const HeapRange& heap);

  const HeapRange& heap() const { return heap_; }
  std::uint32_t size() const { return heap_.runs; }
  std::byte* address(std::uint32_t n) const { return heap_.address(n); }
  Run& operator[](std::uint32_t n) { return runs_[n]; }
  const Run& operator[](std::uint32_t n) const { return runs_[n]; }
  Pages& pages(std::uint32_t n) { return pages_[n]; }
  const Pages& pages(std::uint32_t n) const { return pages_[n]; }
  PageTable& sums() { return pages_; }
  // Whether run n has memory for its sums, which it needs to leave, or could be given it now. It keeps it.
  bool may_leave(std::uint32_t n) {
    Run& r = runs_[n];
    return r.has_sums || (r.has_sums = pages_.have_sums(n));
  }
  // The same while there is memory, for a run that will leave as a whole some day.
  void expect_to_leave(std::uint32_t n) {
    constexpr std::uint32_t worth_a_page = 16;
    if (pages_[n].in_place.count() >= worth_a_page) may_leave(n);
  }
  const RunLists& lists() const { return lists_; }

  // Past the last run on which a block ever lay while blocks were noted.
  std::uint32_t top() const { return top_; }
  void know_top(std::uint32_t past_last_run) { top_ = std::max(top_, past_last_run); }
  // The clock of their age: runs that became resident, ever.
  std::uint32_t arrivals() const { return arrivals_; }
  void note_arrival() { ++arrivals_; }
  // Since run n came into its list.
  std::uint32_t age(std::uint32_t n) const { return arrivals_ - runs_[n].arrival; }
  // Live runs that have content, wherever it lies.
  std::uint32_t data_runs() const { return data_runs_; }
  // Memory of the frames of the lists `cached` and `held`.
  std::uint64_t cached_pages() const { return cached_pages_; }
  std::uint64_t held_pages() const { return held_pages_; }
  // How long before now what is cold is said to have come.
  void set_age_of_cold(std::uint32_t arrivals) { age_of_cold_ = arrivals; }

  // The scope of a change of one run. Scopes of one run do not nest.
  class Change {
   public:
    Change(RunTable& table, std::uint32_t n) : table_(table), n_(n) { table_.take_off(n); }
    ~Change() { table_.put_on(n_); }
    Change(const Change&) = delete;
    Change& operator=(const Change&) = delete;

   private:
    RunTable& table_;
    const std::uint32_t n_;
  };
  void become(std::uint32_t n, RunState state) {
    const Change change(*this, n);
    runs_[n].state = state;
  }
  // Not now: to the young end of its list, and so what is cold, which stays so.
  void spare(std::uint32_t n);
  // What is held has had its time: it is to be written.
  void stop_holding(std::uint32_t n) {
    const Change change(*this, n);
    runs_[n].held = false;
  }
  // What was read ahead was not used when it was expected: it stays for as long as what was evicted now.
  void let_go_by(std::uint32_t n) {
    const Change change(*this, n);
    runs_[n].late = true;
  }
  // In a forked child, which puts every run on its list anew by adopt().
  void forget_lists();
  void adopt(std::uint32_t n) { put_on(n); }

  // The list that belongs to the run's state; nullptr: none.
  const RunList* list_of(const Run& r) const;
  static bool has_data(const Run& r) { return r.live > 0 && r.state != RunState::empty; }

 private:
  void take_off(std::uint32_t n);
  void put_on(std::uint32_t n);

  HeapRange heap_;
  const Staging& staging_;
  Run* runs_ = nullptr;
  PageTable pages_;
  RunLists lists_;
  std::uint64_t cached_pages_ = 0;
  std::uint64_t held_pages_ = 0;
  std::uint32_t data_runs_ = 0;
  std::uint32_t arrivals_ = 0;
  std::uint32_t top_ = 0;
  std::uint32_t age_of_cold_ = 0;
};

}  // namespace terrace::liballoc
