// A piece of computing of one transfer: the sums of pages, or making or undoing a compressed run. It names
// memory that is the operation's own as long as it lasts (a frame, a buffer), and answers into itself, so
// that whoever does it needs nothing else: the agent at once, or a worker (workers.h).
#pragma once

#include <atomic>
#include <cstdint>

#include "liballoc/paging/runs/page_table.h"
#include "liballoc/paging/transfers/run_frame.h"

namespace terrace::liballoc {

struct Job {
  enum class Kind : std::uint8_t { sum, encode, decode };
  Kind kind = Kind::sum;
  bool is_timed = false;
  // Set by who did it for another thread, last: everything else in here belongs to that one before.
  std::atomic<bool> is_done{false};

  // sum: of these pages, page 0 of which would be at `data`
  const std::byte* data = nullptr;
  PageSet pages;
  std::uint64_t sum_ns = 0;
  PageSums sums;
  PageSet zeroes;  // of `pages`

  RunEncoding encoding;
  RunDecoding decoding;

  // The scratch is needed where something is compressed.
  void work(CodecScratch* scratch);
};

}  // namespace terrace::liballoc
