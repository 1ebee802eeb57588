// An extent of the slab that an engine holds for as long as some tensor can come back through nothing else.
// Where the daemon grants less than that, its memory goes back to the kernel while nobody uses it, and is
// asked for again, beyond the grant if it has to be, when somebody does: a tensor is late then, and not lost.
//
//             hold()                    withhold()
//   none ──────────────► here ◄────────────────────► withheld
//     ▲                   │        hand_out()            │
//     └───── give_up() ───┴──────────────────────────────┘
//
// Under the engine's lock, which guards the slab. Errors are errno values.
#pragma once

#include <cstdint>
#include <utility>

#include "liballoc/gpu/offload/memory/slab.h"
#include "tiers/tier.h"

namespace terrace::liballoc::offload {

class HeldExtent {
 public:
  // The slab lives longer, and frees what is held at its end.
  explicit HeldExtent(Slab* slab) : slab_(slab) {}
  HeldExtent(const HeldExtent&) = delete;
  HeldExtent& operator=(const HeldExtent&) = delete;

  // 0: none. As large when it is withheld.
  std::uint64_t bytes() const { return extent_.bytes + withheld_bytes_; }
  bool is_here() const { return extent_.bytes != 0; }
  // While it is here.
  const tiers::Extent& extent() const { return extent_; }

  // Holds `extent` instead, which was reserved.
  void hold(const tiers::Extent& extent) {
    give_up();
    extent_ = extent;
  }
  void give_up();

  // It is in nobody's use, here and below. Moves it within the slab's limit if it is not and there is room.
  // False: there is none.
  bool move_below_limit();
  void withhold();
  // The same, where nobody else has to move for it.
  void spare();
  // Sees to it that it is here: 0, ENOENT where there is none, or as Slab::hand_out_withheld().
  int hand_out();
  // The same, where the limit has room for it.
  void come_back();

 private:
  Slab* slab_;
  tiers::Extent extent_{};
  std::uint64_t withheld_bytes_ = 0;  // not 0: it is withheld
};

}  // namespace terrace::liballoc::offload
