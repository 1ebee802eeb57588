// How a request finds its memory: the order of heap.h, step by step.
#include <algorithm>

#include "liballoc/gpu/heap/heap.h"

namespace terrace::liballoc::gpu {

Placement::Handle Heap::take(Arena* arena, Handle piece, std::uint64_t bytes) {
  const std::uint64_t begin = arena->placement.piece(piece).begin;
  return arena->placement.take(piece, {begin, begin + bytes});
}

Placement::Handle Heap::place(Arena* arena, std::uint64_t bytes, Owner owner, Stream stream) {
  Handle piece = arena->placement.best_fit(bytes, owner);
  if (piece != none) return take(arena, piece, bytes);
  do {
    if ((piece = reuse_passed(arena, bytes, owner)) != none) return piece;
    if ((piece = grow(arena, bytes, owner, false)) != none) return piece;
    if ((piece = reuse_behind_event(arena, bytes, owner, stream)) != none) return piece;
    if ((piece = grow(arena, bytes, owner, true)) != none) return piece;
  } while (relieve());
  return none;
}

Placement::Handle Heap::reuse_passed(Arena* arena, std::uint64_t bytes, Owner owner) {
  const auto passed = [this](const Placement::Piece& piece) { return clocks_.passed(piece.mark); };
  const Handle piece = arena->placement.foreign_fit(bytes, owner, passed);
  return piece == none ? none : take(arena, arena->placement.settle(piece), bytes);
}

Placement::Handle Heap::reuse_behind_event(Arena* arena, std::uint64_t bytes, Owner owner, Stream stream) {
  const auto any = [](const Placement::Piece&) { return true; };
  const Handle piece = arena->placement.foreign_fit(bytes, owner, any);
  if (piece == none || clocks_.order(stream, arena->placement.piece(piece).mark) != 0) return none;
  ++counts_.stream_waits;
  return take(arena, piece, bytes);
}

// The range is taken before frames are looked for, so that nothing of it is moved away meanwhile.
Placement::Handle Heap::grow(Arena* arena, std::uint64_t bytes, Owner owner, bool new_frames) {
  const auto choice = arena->placement.cheapest_span(bytes, owner);
  if (!choice) return none;
  const Handle block = arena->placement.take(choice->first, choice->span);
  if (back_with_frames(arena, block, new_frames)) return block;
  // As it was: a new mark would be something more to wait for, for ever.
  put_back(arena, block, arena->placement.piece(block).mark);
  return none;
}

bool Heap::back_with_frames(Arena* arena, Handle block, bool new_frames) {
  const std::uint64_t wanted = missing_frames(span_of({arena, block}));
  if (ledger_.spare() < wanted && much_is_idle()) gather(wanted);
  if (ledger_.spare() < wanted && !new_frames) return false;
  int error = ledger_.spare() < wanted ? ledger_.create(wanted - ledger_.spare()) : 0;
  if (error == ENOMEM) gather(wanted);  // rather than refuse
  if (ledger_.spare() >= wanted) error = map_missing(arena, block);
  if (error != 0) refusal_ = error;
  return error == 0;
}

// Whether free ranges hold so much that moving it is worth more than new frames are. A frame that moves
// leaves a hole that the next step wants to have back. Which frames can move depends on how far the device
// has come, so a heap that always moves what it can fills its frames by chance. From a quarter on chance had
// no part in it on any profile; from an eighth on one moved frame cost the next step 4 points on one of them
// (docs/decisions/013-gpu.md).
bool Heap::much_is_idle() const {
  constexpr std::uint64_t share = 4;
  std::uint64_t idle = 0;
  for (const Arena& arena : arenas_) {
    arena.placement.visit_mapped(ledger_.frame_bytes(), [&](Handle piece) {
      idle += arena.placement.piece(piece).end - arena.placement.piece(piece).begin;
      return true;
    });
  }
  return idle * share >= ledger_.held() * ledger_.frame_bytes();
}

std::uint64_t Heap::missing_frames(Span span) const {
  const std::uint64_t frame = ledger_.frame_bytes();
  const Span frames = frames_of(span);
  std::uint64_t missing = 0;
  for (std::uint64_t s = frames.begin / frame; s < frames.end / frame; ++s)
    missing += ledger_.mapped(s) ? 0 : 1;
  return missing;
}

int Heap::map_missing(Arena* arena, Handle block) {
  const std::uint64_t frame = ledger_.frame_bytes();
  const Span frames = frames_of(span_of({arena, block}));
  const std::uint64_t end = frames.end / frame;
  for (std::uint64_t s = frames.begin / frame; s < end;) {
    std::uint64_t count = 0;
    while (s + count < end && !ledger_.mapped(s + count)) ++count;
    if (count == 0) {
      ++s;
      continue;
    }
    if (const int error = ledger_.map(s, count); error != 0) return error;
    arena->placement.set_mapped(block, {s * frame, (s + count) * frame}, true);
    s += count;
  }
  return 0;
}

void Heap::put_back(Arena* arena, Handle block, Mark mark) {
  const Span span = span_of({arena, block});
  const Handle piece = arena->placement.release(block, mark);
  mark_unmapped(arena, piece, span);
}

// Slots of the span behind which there is no frame: nobody can use them before one is mapped.
void Heap::mark_unmapped(Arena* arena, Handle near, Span span) {
  const std::uint64_t frame = ledger_.frame_bytes();
  const Span frames = frames_of(span);
  for (std::uint64_t s = frames.end / frame; s-- > frames.begin / frame;) {
    if (ledger_.mapped(s)) continue;
    arena->placement.set_mapped(near, {s * frame, (s + 1) * frame}, false);
  }
}

// Moves frames out of free ranges until `wanted` are spare, or no frame is left that can move.
// Marks that have no event yet are not given one here: what was freed a moment ago is wanted again soon, and
// a heap that moved it would move it back in every step (measured on the profile of kineto_replay_test.cpp).
void Heap::gather(std::uint64_t wanted) {
  for (std::size_t i = arenas_.size(); i-- > 0 && ledger_.spare() < wanted;) {
    donors_.clear();
    arenas_[i].placement.visit_mapped(ledger_.frame_bytes(), [this](Handle piece) {
      donors_.push_back(piece);
      return true;
    });
    for (const Handle piece : donors_) {
      if (ledger_.spare() >= wanted) break;
      strip(&arenas_[i], piece, wanted);
    }
  }
}

// From the back, so that the piece keeps its handle while parts of it go.
void Heap::strip(Arena* arena, Handle piece, std::uint64_t wanted) {
  const std::uint64_t frame = ledger_.frame_bytes();
  const Placement::Piece whole = arena->placement.piece(piece);
  const std::uint64_t first = (whole.begin + frame - 1) / frame;
  std::uint64_t end = whole.end / frame;
  while (end > first && ledger_.spare() < wanted) {
    std::uint64_t begin = end;
    while (begin > first && ledger_.spare() + (end - begin) < wanted && ledger_.movable(begin - 1)) --begin;
    if (begin == end) {
      --end;
      continue;
    }
    if (ledger_.unmap(begin, end - begin) != 0) return;
    counts_.frames_moved += end - begin;
    arena->placement.set_mapped(piece, {begin * frame, end * frame}, false);
    end = begin;
  }
}

// Under pressure. True: something became free, try again.
bool Heap::relieve() {
  if (settle_passed()) return true;
  if (evict_one_offered() == 0) return wait_for_one();
  if (leaving_ > 0) wait_for_copy();
  return true;
}

bool Heap::settle_passed() {
  bool any = false;
  for (Arena& arena : arenas_) {
    donors_.clear();
    arena.placement.visit_mapped(0, [&](Handle piece) {
      const Mark mark = arena.placement.piece(piece).mark;
      if (mark.owner != nobody && clocks_.passed(mark)) donors_.push_back(piece);
      return true;
    });
    any = any || !donors_.empty();
    for (const Handle h : donors_) {  // one may have become part of another
      const Placement::Piece& piece = arena.placement.piece(h);
      if (piece.mapped && clocks_.passed(piece.mark)) arena.placement.settle(h);
    }
  }
  return any;
}

// For a recorded stream of a block that was freed, else the last use of the largest free range.
bool Heap::wait_for_one() {
  if (leaving_ > 0 && wait_for_copy()) return true;
  Mark mark;
  if (!waiting_.empty()) {
    mark = waiting_.front().others.front();
  } else {
    std::uint64_t most = 0;
    for (const Arena& arena : arenas_) {
      arena.placement.visit_mapped(0, [&](Handle h) {
        const Placement::Piece& piece = arena.placement.piece(h);
        if (piece.mark.owner != nobody && piece.end - piece.begin > most) {
          most = piece.end - piece.begin;
          mark = piece.mark;
        }
        return true;
      });
    }
  }
  if (mark.owner == nobody) return false;
  ++counts_.host_waits;
  if (clocks_.wait(mark) != 0) return false;
  poll_waiting();
  return true;
}

std::string Heap::check_invariants() {
  const std::lock_guard guard(mutex_);
  for (const Arena& arena : arenas_) {
    if (std::string wrong = arena.placement.check_invariants(); !wrong.empty()) return wrong;
  }
  std::uint64_t allocated = 0;
  for (const auto& [offset, block] : live_) {
    allocated += block.arena->asked_bytes[block.piece];
    if (span_of(block).begin != offset) return "a block is not where it is looked up";
  }
  if (allocated != counts_.allocated_bytes) return "allocated bytes are miscounted";
  return ledger_.check_invariants();
}

}  // namespace terrace::liballoc::gpu
