// How much memory the pager may have and how much it has: pages in place and in frames together; beside that
// what compressed runs take. Both share one budget: what compressed runs take the pages may not.
#pragma once

#include <algorithm>
#include <cstdint>

#include "liballoc/base/os.h"
#include "liballoc/paging/runs/page_set.h"

namespace terrace::liballoc {

class MemoryBudget {
 public:
  // ---- what is allowed, in runs
  // For pages and compressed runs together. Of more than nothing one run at least is for pages.
  void share(std::uint32_t runs) {
    shared_ = runs;
    divide();
  }
  // For pages alone.
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
    if (!is_left_) note_peak(held_bytes());
  }
  void lose(std::uint32_t pages) { backed_ -= pages; }
  void start_anew() { backed_ = 0; }
  std::uint64_t backed_pages() const { return backed_; }
  std::uint64_t backed_bytes() const { return backed_ * os::page_bytes; }
  std::uint32_t backed_runs() const {
    return static_cast<std::uint32_t>((backed_ + pages_per_run - 1) / pages_per_run);
  }
  // What compressed runs take from now on, in runs.
  void keep(std::uint32_t runs) {
    kept_ = runs;
    divide();
    note_peak(held_bytes());
  }
  std::uint32_t kept_runs() const { return kept_; }
  std::uint64_t kept_bytes() const { return std::uint64_t{kept_} * run_bytes; }
  // All that the pager answers for in what the process takes.
  std::uint64_t held_bytes() const { return backed_bytes() + kept_bytes(); }
  void note_peak(std::uint64_t bytes) { peak_bytes_ = std::max(peak_bytes_, bytes); }
  std::uint64_t peak_bytes() const { return peak_bytes_; }

  // The kernel takes memory away as it sees fit, so that there is room for any.
  void leave_to_kernel(bool is_left) { is_left_ = is_left; }
  // Of what is held, so much does not take memory at present, as the kernel has swapped it.
  void note_swapped(std::uint64_t bytes) { swapped_bytes_ = bytes; }
  std::uint64_t swapped_bytes() const { return std::min(swapped_bytes_, held_bytes()); }

  // ---- both
  bool has_room_for(std::uint32_t more) const { return is_left_ || backed_ + more <= pages(); }
  bool is_over() const { return !is_left_ && backed_ > pages(); }
  std::uint32_t allowed_runs() const { return runs_ - std::min(runs_, backed_runs()); }
  std::uint32_t excess_runs() const { return backed_runs() - std::min(backed_runs(), runs_); }

  // The job has needed more than its budget before.
  void note_outgrown() { outgrown_ = true; }
  bool is_outgrown() const { return outgrown_; }

 private:
  void divide() { runs_ = asked_ = shared_ - std::min(shared_ - std::min(shared_, 1U), kept_); }

  std::uint32_t shared_ = 0;
  std::uint32_t runs_ = 0;
  std::uint32_t asked_ = 0;  // before it had to give way
  std::uint64_t backed_ = 0;
  std::uint32_t kept_ = 0;  // runs
  std::uint64_t peak_bytes_ = 0;
  bool outgrown_ = false;
  bool is_left_ = false;
  std::uint64_t swapped_bytes_ = 0;
};

}  // namespace terrace::liballoc
