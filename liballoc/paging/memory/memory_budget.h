// How much memory the pager may have and how much it has: pages in place and in frames together; beside that
// what compressed runs take, which the budget of the pages is lowered by.
#pragma once

#include <algorithm>
#include <cstdint>

#include "liballoc/base/os.h"
#include "liballoc/paging/runs/page_set.h"

namespace terrace::liballoc {

class MemoryBudget {
 public:
  // ---- what is allowed, in runs
  void ask(std::uint32_t runs) { runs_ = asked_ = runs; }
  std::uint32_t runs() const { return runs_; }
  std::uint64_t pages() const { return std::uint64_t{runs_} * pages_per_run; }
  std::uint64_t bytes() const { return std::uint64_t{runs_} * run_bytes; }
  // Data is never dropped: what cannot leave makes the budget larger.
  void give_way() { runs_ = std::max(runs_, backed_runs()) + 1; }
  bool gave_way() const { return runs_ > asked_; }
  void return_to_asked() { runs_ = asked_; }

  // ---- what there is, in pages
  void gain(std::uint32_t pages) {
    backed_ += pages;
    note_peak(held_bytes());
  }
  void lose(std::uint32_t pages) { backed_ -= pages; }
  void start_anew() { backed_ = 0; }
  std::uint64_t backed_pages() const { return backed_; }
  std::uint64_t backed_bytes() const { return backed_ * os::page_bytes; }
  std::uint32_t backed_runs() const {
    return static_cast<std::uint32_t>((backed_ + pages_per_run - 1) / pages_per_run);
  }
  void keep(std::uint32_t runs) {
    kept_ = runs;
    note_peak(held_bytes());
  }
  std::uint32_t kept_runs() const { return kept_; }
  std::uint64_t kept_bytes() const { return std::uint64_t{kept_} * run_bytes; }
  // All that the pager answers for in what the process takes.
  std::uint64_t held_bytes() const { return backed_bytes() + kept_bytes(); }
  void note_peak(std::uint64_t bytes) { peak_bytes_ = std::max(peak_bytes_, bytes); }
  std::uint64_t peak_bytes() const { return peak_bytes_; }

  // ---- both
  bool has_room_for(std::uint32_t more) const { return backed_ + more <= pages(); }
  bool is_over() const { return backed_ > pages(); }
  std::uint32_t allowed_runs() const { return runs_ - std::min(runs_, backed_runs()); }
  std::uint32_t excess_runs() const { return backed_runs() - std::min(backed_runs(), runs_); }

  // The job has needed more than its budget before.
  void note_outgrown() { outgrown_ = true; }
  bool is_outgrown() const { return outgrown_; }

 private:
  std::uint32_t runs_ = 0;
  std::uint32_t asked_ = 0;  // before it had to give way
  std::uint64_t backed_ = 0;
  std::uint32_t kept_ = 0;  // runs
  std::uint64_t peak_bytes_ = 0;
  bool outgrown_ = false;
};

}  // namespace terrace::liballoc
