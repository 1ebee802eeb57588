// The heap as an emulated GPU's memory, where a framework's tensors on the CPU stand for those on a GPU: it
// has so much and no more, and full is ENOMEM (Options::device_bytes).
#pragma once

#include <cstddef>

#include "liballoc/base/options.h"
#include "liballoc/heap/blocks.h"

namespace terrace::liballoc {

class DeviceLimit {
 public:
  constexpr DeviceLimit(const Options& options, Blocks& blocks) : options_(options), blocks_(blocks) {}

  // Whether there is a limit. Where there is, no other allocator and no second copy stands in for the heap.
  bool is_set() const { return options_.device_bytes != 0; }
  // Under the heap's lock. Live blocks count in whole granules, as in the statistics.
  bool has_room(std::size_t more_bytes) const;
  // Says that a request was refused; without the lock.
  void report_full(std::size_t bytes);

 private:
  const Options& options_;
  Blocks& blocks_;
  bool is_reported_ = false;  // under the heap's lock
};

}  // namespace terrace::liballoc
