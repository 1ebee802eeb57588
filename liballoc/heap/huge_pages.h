// Huge pages for the heap's blocks as long as the kernel backs them by itself.
//
// A first touch gets what the system's setting gives it: where that is `madvise`, Debian's and most others',
// a small page, so that a block that is touched here and there takes what it would without us. A block that
// is found dense when it is freed gives its memory back once, and its addresses ask for huge pages from then
// on, as do fresh addresses that a block of the same size gets. What has been used before is used again as it
// is. So a program whose blocks come again has huge pages from the second time on, and one with sparse blocks
// never.
//
//   freed for the first time   dense: memory back to the kernel, MADV_HUGEPAGE      else: nothing
//   handed out, never touched  size known as dense: MADV_HUGEPAGE      else, where it was set: mapped anew
//
// Where the setting is `always` or `never` nothing is to be done. Any thread, for a block that is its own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "liballoc/heap/space/address_space.h"

namespace terrace::liballoc {

class HugePages {
 public:
  // 0 or ENOMEM. `may_map`: nobody watches the range, or will; else what asks for huge pages goes on asking.
  int initialise(std::byte* base, std::size_t bytes, bool may_map);
  bool is_on() const { return is_on_; }
  void switch_off() { is_on_ = false; }

  // A block that nobody has touched is handed out.
  void prepare(std::byte* block, std::size_t bytes);
  // Whether settle() may have something to do: cheap, and asked for every block that is freed.
  bool may_settle(const std::byte* block, std::size_t bytes) const {
    return is_on_ && bytes >= 2 * run_bytes && !is_advised(run_of(block + run_bytes - 1));
  }
  // A block is about to be freed. True: it was dense for the first time, and its memory has gone back.
  bool settle(std::byte* block, std::size_t bytes);

 private:
  // What is known of a size: how often in a row it was not dense, or that it is.
  struct Size {
    std::atomic<std::uint32_t> granules{0};
    std::atomic<std::uint32_t> misses{0};
    std::atomic<bool> is_dense{false};
  };
  static constexpr std::size_t sizes = 256;

  Size& size_of(std::size_t bytes);
  bool is_advised(std::uint32_t run) const;
  void advise_runs(std::byte* begin, std::byte* end);
  void forget_runs(std::byte* begin, std::byte* end);
  std::uint32_t run_of(const std::byte* address) const {
    return static_cast<std::uint32_t>(static_cast<std::size_t>(address - base_) / run_bytes);
  }

  bool is_on_ = false;
  bool may_map_ = false;
  std::byte* base_ = nullptr;
  std::atomic<std::uint64_t>* advised_ = nullptr;  // a bit for each run
  Size sizes_[sizes];
};

}  // namespace terrace::liballoc
