// When a dormant pager has to take over: as late as the budget allows, since until then the kernel backs
// memory in parallel and at its own speed.
//
//   |------------------------ budget ------------------------|
//   |  nobody looks  |  looked at again and again  |  margin |
//                    ^ spread                      ^ memory that is really there
//
// What was handed out bounds what may be there (spread), and costs nothing to know. Above the mark the
// process's own count of anonymous pages bounds it; only when that, too, is above the mark are the heap's
// pages counted. Looks come as often as the fastest writer would need to cross the margin that is left. The
// agent's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "liballoc/paging/page_scan.h"

namespace terrace::liballoc {

class HighWater {
 public:
  void open();
  void close();
  void set_budget(std::uint64_t bytes);

  // What may be handed out without a look.
  std::uint64_t mark_bytes() const { return mark_; }
  // Whether to take over now. `heap` is the part of the address space that was ever handed out.
  bool is_reached(std::uint64_t spread_bytes, std::byte* heap, std::byte* heap_end);
  // How long until the next look, as of the last one.
  std::uint64_t pause_ns() const { return pause_ns_; }
  // The most that the heap may hold now, without counting pages.
  std::uint64_t estimate(std::uint64_t spread_bytes);

 private:
  std::uint64_t anonymous_bytes() const;

  PageScan scan_;
  int statm_fd_ = -1;
  std::uint64_t budget_ = 0;
  std::uint64_t mark_ = 0;
  std::uint64_t others_ =
      0;  // of the process's anonymous memory, what was not the heap's when it was counted
  std::uint64_t pause_ns_ = 0;
};

}  // namespace terrace::liballoc
