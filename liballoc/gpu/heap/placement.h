// Which bytes of a reserved address range belong to which block: the bookkeeping alone, no device behind it.
//
// The range is cut into pieces that know their neighbours. A piece is a block, or free; free ones are told
// apart by whether frames are behind them and by whose stream used them last. Neighbours of a kind are one
// piece:
//
//   address   |  block  | free, mapped, stream 1 | free, mapped, stream 2 | block | free, not mapped … |
//
// Best fit over the mapped free pieces of a stream and of nobody; of equals the lowest address. A balanced
// tree for each stream makes it O(log n). Where nothing fits, cheapest_span() says which free range would
// take the fewest frames to complete: a few of the largest mapped pieces, each grown over its free
// neighbours, beside the smallest free range that is large enough without frames.
//
// Offsets are bytes from the range's beginning, multiples of `granularity`. Blocks may begin and end anywhere
// in a frame. Not thread-safe. O(log n), and O(pieces in a hole) where it says so.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "liballoc/gpu/heap/mark.h"

namespace terrace::liballoc::gpu {

struct Span {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

class Placement {
 public:
  static constexpr std::uint64_t granularity = 512;
  using Handle = std::uint32_t;
  static constexpr Handle none = 0xffffffffU;

  struct Piece {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    Handle before = none;
    Handle after = none;
    Mark mark;  // the latest use of any part of it, while it was free last
    bool used = false;
    bool mapped = false;  // of a free piece
  };

  // Everything is free, nothing mapped. `bytes` is a multiple of frame_bytes.
  Placement(std::uint64_t begin, std::uint64_t bytes, std::uint64_t frame_bytes);

  // The smallest mapped piece of at least `bytes` that `owner` or nobody used last; none.
  [[nodiscard]] Handle best_fit(std::uint64_t bytes, Owner owner) const;
  // The smallest one that another stream used last and for which `accept` says yes; looks at a few per
  // stream.
  template <class Accept>
  [[nodiscard]] Handle foreign_fit(std::uint64_t bytes, Owner owner, Accept accept) const;

  struct Choice {
    Handle first = none;  // the free piece in which `span` begins
    Span span;
    std::uint64_t missing_frames = 0;
  };
  // The free range of `bytes`, of `owner` and nobody, that lacks the fewest frames.
  [[nodiscard]] std::optional<Choice> cheapest_span(std::uint64_t bytes, Owner owner) const;

  // Makes [span) a block, mapped or not; it begins in `first` and nothing in it is used. Returns the block's
  // piece, which keeps its handle until release().
  Handle take(Handle first, Span span);
  // The block is free from `mark` on, and wholly mapped (set_mapped() if it was not). Returns the free piece
  // that it became part of.
  Handle release(Handle block, Mark mark);
  // A free piece's last use has passed: it is nobody's.
  Handle settle(Handle piece);
  // Frames appear or vanish in [span), whole frames. Free pieces of it, around `near`, change; blocks do not.
  void set_mapped(Handle near, Span span, bool mapped);
  // The piece at an offset, looked for from `near`: O(pieces between).
  [[nodiscard]] Handle find(Handle near, std::uint64_t offset) const;

  // Calls visit(handle) for mapped free pieces of at least `bytes` until it returns false, smallest first,
  // stream by stream. The pieces must not change meanwhile.
  template <class Visit>
  void visit_mapped(std::uint64_t bytes, Visit visit) const;

  [[nodiscard]] const Piece& piece(Handle handle) const { return pieces_[handle]; }
  [[nodiscard]] std::uint64_t used_bytes() const { return used_bytes_; }
  // What is wrong, empty if nothing. Linear.
  [[nodiscard]] std::string check_invariants() const;

 private:
  struct Key {
    std::uint64_t bytes;
    std::uint64_t begin;
    Handle handle;
    bool operator<(const Key& o) const { return bytes != o.bytes ? bytes < o.bytes : begin < o.begin; }
  };
  using Index = std::set<Key>;

  [[nodiscard]] Key key(Handle h) const { return {pieces_[h].end - pieces_[h].begin, pieces_[h].begin, h}; }
  Index& index_of(const Piece& piece);
  void list(Handle h);
  void unlist(Handle h);
  [[nodiscard]] bool alike(const Piece& a, const Piece& b) const;
  [[nodiscard]] bool usable(Handle h, Owner owner) const;
  Handle new_piece(const Piece& piece);
  void drop(Handle h);
  Handle split(Handle h, std::uint64_t at);  // unlisted; returns the part behind
  Handle merge(Handle h);                    // h unlisted; the neighbours of its kind join it
  void swallow_next(Handle h);
  [[nodiscard]] std::optional<Choice> grown(Handle h, std::uint64_t bytes, Owner owner) const;
  [[nodiscard]] std::uint64_t missing(Handle first, Span span) const;
  [[nodiscard]] std::string check_piece(Handle h) const;

  std::uint64_t begin_, end_, frame_bytes_;
  std::vector<Piece> pieces_;
  std::vector<Handle> spare_;
  std::vector<Index> mapped_;  // by owner
  Index unmapped_;
  std::vector<Index::node_type> nodes_;  // of the trees, kept so that a recycled block allocates nothing
  std::uint64_t used_bytes_ = 0;
};

template <class Accept>
Placement::Handle Placement::foreign_fit(std::uint64_t bytes, Owner owner, Accept accept) const {
  constexpr int looked_at = 4;
  Handle best = none;
  for (Owner other = 1; other < mapped_.size(); ++other) {
    if (other == owner) continue;
    auto it = mapped_[other].lower_bound({bytes, 0, none});
    for (int i = 0; i < looked_at && it != mapped_[other].end(); ++i, ++it) {
      if (best != none && !(*it < key(best))) break;
      if (accept(pieces_[it->handle])) {
        best = it->handle;
        break;
      }
    }
  }
  return best;
}

template <class Visit>
void Placement::visit_mapped(std::uint64_t bytes, Visit visit) const {
  for (const Index& index : mapped_) {
    for (auto it = index.lower_bound({bytes, 0, none}); it != index.end(); ++it) {
      if (!visit(it->handle)) return;
    }
  }
}

}  // namespace terrace::liballoc::gpu
