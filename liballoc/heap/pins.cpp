#include "liballoc/heap/pins.h"

#include "liballoc/base/os.h"

namespace terrace::liballoc {

int Pins::pin(const void* address, std::size_t bytes) {
  const Blocks::Runs runs = blocks_.runs_of(address, bytes);
  if (runs.block == 0) return EINVAL;
  const KnownBlock block = hold_block(runs.block);
  {
    const InsideGate gate(guarded_);
    Pager& pager = guarded_.pager;
    if (!pager.pins().can_pin(runs.first, runs.last)) return ENOMEM;
    if (!pager.is_paging()) pager.blocks().know(runs.block, block);
    pager.pins().pin(runs.first, runs.last, runs.block);
  }
  for (std::uint32_t n = runs.first; n <= runs.last; ++n) bring(n);
  return 0;
}

// What is there is not touched: the program may have taken its access away. Nor is what was never written.
void Pins::bring(std::uint32_t run) {
  const std::byte* const begin = guarded_.pager.runs().heap().address(run);
  const PageSet away = pages_away(run);
  for (PageRange range = away.next(0); range.count() > 0; range = away.next(range.end))
    for (std::uint32_t page = range.first; page < range.end; ++page)
      static_cast<void>(*static_cast<const volatile std::byte*>(begin + std::size_t{page} * os::page_bytes));
}

// Of a run, what is not under its address.
PageSet Pins::pages_away(std::uint32_t run) {
  const InsideGate gate(guarded_);
  return guarded_.pager.is_paging() ? guarded_.pager.runs().pages(run).elsewhere() : PageSet{};
}

// While the pager is not told of blocks, it must be told of this one, and of its end.
KnownBlock Pins::hold_block(std::uint32_t id) {
  const LockGuard guard(blocks_.lock());
  blocks_.space().block(id).hints |= held_hint;
  return blocks_.known(id);
}

int Pins::lend(const void* address, std::size_t bytes) {
  {
    const LockGuard guard(blocks_.lock());
    const std::uint32_t id = blocks_.space().live_block_covering(address);
    if (id != 0) blocks_.space().block(id).hints |= lent_hint;
  }
  return pin(address, bytes);
}

int Pins::unpin(const void* address, std::size_t bytes) {
  const Blocks::Runs runs = blocks_.runs_of(address, bytes);
  if (runs.block == 0) return EINVAL;
  const InsideGate gate(guarded_);
  guarded_.pager.pins().unpin(runs.first, runs.last, runs.block);
  return 0;
}

}  // namespace terrace::liballoc
