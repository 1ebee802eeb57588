// What the heap has handed out, and with what the pager counts the statistics of both.
#pragma once

#include <cstdint>

#include "liballoc/heap/blocks.h"
#include "liballoc/heap/guarded_pager.h"
#include "liballoc/terrace.h"

namespace terrace::liballoc {

class HeapAccounts {
 public:
  constexpr HeapAccounts(const GuardedPager& guarded, Blocks& blocks) : guarded_(guarded), blocks_(blocks) {}

  // Under the heap's lock, when it has happened.
  void block_came(bool is_virgin);
  void block_grew();
  void block_went() { ++frees_; }

  // Any thread, without lock and gate.
  void read(terrace_statistics* out);
  // The agent, with the gate: it does not wait for the lock.
  void read_as_agent(terrace_statistics* out);

 private:
  void add_counts(terrace_statistics* out) const;

  const GuardedPager& guarded_;
  Blocks& blocks_;
  // Under the heap's lock.
  std::uint64_t allocations_ = 0, frees_ = 0, recycled_allocations_ = 0;
  std::uint32_t peak_granules_ = 0;
  std::uint32_t peak_spread_ = 0;
};

}  // namespace terrace::liballoc
