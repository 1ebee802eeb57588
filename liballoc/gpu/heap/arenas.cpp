// See arenas.h: the order of heap.h, step by step.
#include "liballoc/gpu/heap/arenas.h"

#include <cerrno>

namespace terrace::liballoc::gpu {
namespace {

// Addresses reserved, in multiples of the device's memory: best fit over addresses that are never short.
constexpr std::uint64_t small_share = 1;
constexpr std::uint64_t large_share = 4;

std::uint64_t rounded(std::uint64_t bytes) {
  return (bytes + Placement::granularity - 1) / Placement::granularity * Placement::granularity;
}

}  // namespace

int Arenas::open(std::uint64_t memory_bytes, std::uint64_t frame_bytes) {
  if (const int error = ledger_.open((small_share + large_share) * (memory_bytes / frame_bytes)); error != 0)
    return error;
  arenas_.reserve(2);
  arenas_.emplace_back(0, small_share * memory_bytes, frame_bytes);
  arenas_.emplace_back(small_share * memory_bytes, large_share * memory_bytes, frame_bytes);
  return 0;
}

Span Arenas::span_of(const Block& block) {
  const Placement::Piece& piece = block.arena->placement.piece(block.piece);
  return {piece.begin, piece.end};
}

Span Arenas::frames_of(Span span) const {
  const std::uint64_t frame = ledger_.frame_bytes();
  return {span.begin / frame * frame, (span.end + frame - 1) / frame * frame};
}

void Arenas::use(const Block& block, std::uint64_t asked_bytes) {
  ledger_.use(span_of(block));
  std::vector<std::uint64_t>& asked = block.arena->asked_bytes;
  if (asked.size() <= block.piece) asked.resize(block.piece + 1);
  asked[block.piece] = asked_bytes;
}

void Arenas::release(const Block& block, Mark mark) {
  ledger_.leave(span_of(block), mark);
  put_back(block, mark);
}

Placement::Handle Arenas::take(Arena* arena, Handle piece, std::uint64_t bytes) {
  const std::uint64_t begin = arena->placement.piece(piece).begin;
  return arena->placement.take(piece, {begin, begin + bytes});
}

bool Arenas::at_once(std::uint64_t bytes, Owner owner, Block* out) {
  Arena& arena = arena_for(bytes);
  const Handle piece = arena.placement.best_fit(rounded(bytes), owner);
  if (piece != none) *out = {&arena, take(&arena, piece, rounded(bytes))};
  return piece != none;
}

bool Arenas::find(std::uint64_t bytes, Owner owner, Stream stream, Block* out, int* refusal) {
  Arena& arena = arena_for(bytes);
  bytes = rounded(bytes);
  Handle piece = reuse_passed(&arena, bytes, owner);
  if (piece == none) piece = grow(&arena, bytes, owner, false, refusal);
  if (piece == none) piece = reuse_behind_event(&arena, bytes, owner, stream);
  if (piece == none) piece = grow(&arena, bytes, owner, true, refusal);
  if (piece != none) *out = {&arena, piece};
  return piece != none;
}

Placement::Handle Arenas::reuse_passed(Arena* arena, std::uint64_t bytes, Owner owner) {
  const auto passed = [this](const Placement::Piece& piece) { return clocks_.passed(piece.mark); };
  const Handle piece = arena->placement.foreign_fit(bytes, owner, passed);
  return piece == none ? none : take(arena, arena->placement.settle(piece), bytes);
}

Placement::Handle Arenas::reuse_behind_event(Arena* arena, std::uint64_t bytes, Owner owner, Stream stream) {
  const auto any = [](const Placement::Piece&) { return true; };
  const Handle piece = arena->placement.foreign_fit(bytes, owner, any);
  if (piece == none || clocks_.order(stream, arena->placement.piece(piece).mark) != 0) return none;
  ++counts_.stream_waits;
  return take(arena, piece, bytes);
}

// The range is taken before frames are looked for, so that nothing of it is moved away meanwhile.
Placement::Handle Arenas::grow(Arena* arena, std::uint64_t bytes, Owner owner, bool new_frames,
                               int* refusal) {
  const auto choice = arena->placement.cheapest_span(bytes, owner);
  if (!choice) return none;
  const Block block{arena, arena->placement.take(choice->first, choice->span)};
  if (back_with_frames(block, new_frames, refusal)) return block.piece;
  // As it was: a new mark would be something more to wait for, for ever.
  put_back(block, arena->placement.piece(block.piece).mark);
  return none;
}

bool Arenas::back_with_frames(const Block& block, bool new_frames, int* refusal) {
  const std::uint64_t wanted = missing_frames(span_of(block));
  if (ledger_.spare() < wanted && much_is_idle()) gather(wanted);
  if (ledger_.spare() < wanted && !new_frames) return false;
  int error = ledger_.spare() < wanted ? ledger_.create(wanted - ledger_.spare()) : 0;
  if (error == ENOMEM) gather(wanted);  // rather than refuse
  if (ledger_.spare() >= wanted) error = map_missing(block);
  if (error != 0) *refusal = error;
  return error == 0;
}

// Whether free ranges hold so much that moving it is worth more than new frames are. A frame that moves
// leaves a hole that the next step wants to have back. Which frames can move depends on how far the device
// has come, so a heap that always moves what it can fills its frames by chance. From a quarter on chance had
// no part in it on any profile; from an eighth on one moved frame cost the next step 4 points on one of them
// (docs/decisions/013-gpu.md).
bool Arenas::much_is_idle() const {
  constexpr std::uint64_t share = 4;
  return idle_bytes() * share >= ledger_.held() * ledger_.frame_bytes();
}

std::uint64_t Arenas::idle_bytes() const {
  std::uint64_t idle = 0;
  for (const Arena& arena : arenas_) {
    arena.placement.visit_mapped(ledger_.frame_bytes(), [&](Handle piece) {
      idle += arena.placement.piece(piece).end - arena.placement.piece(piece).begin;
      return true;
    });
  }
  return idle;
}

std::uint64_t Arenas::missing_frames(Span span) const {
  const std::uint64_t frame = ledger_.frame_bytes();
  const Span frames = frames_of(span);
  std::uint64_t missing = 0;
  for (std::uint64_t s = frames.begin / frame; s < frames.end / frame; ++s)
    missing += ledger_.mapped(s) ? 0 : 1;
  return missing;
}

int Arenas::map_missing(const Block& block) {
  const std::uint64_t frame = ledger_.frame_bytes();
  const Span frames = frames_of(span_of(block));
  const std::uint64_t end = frames.end / frame;
  for (std::uint64_t s = frames.begin / frame; s < end;) {
    std::uint64_t count = 0;
    while (s + count < end && !ledger_.mapped(s + count)) ++count;
    if (count == 0) {
      ++s;
      continue;
    }
    if (const int error = ledger_.map(s, count); error != 0) return error;
    block.arena->placement.set_mapped(block.piece, {s * frame, (s + count) * frame}, true);
    s += count;
  }
  return 0;
}

void Arenas::put_back(const Block& block, Mark mark) {
  const Span span = span_of(block);
  const Handle piece = block.arena->placement.release(block.piece, mark);
  mark_unmapped(block.arena, piece, span);
}

// Slots of the span behind which there is no frame: nobody can use them before one is mapped.
void Arenas::mark_unmapped(Arena* arena, Handle near, Span span) {
  const std::uint64_t frame = ledger_.frame_bytes();
  const Span frames = frames_of(span);
  for (std::uint64_t s = frames.end / frame; s-- > frames.begin / frame;) {
    if (ledger_.mapped(s)) continue;
    arena->placement.set_mapped(near, {s * frame, (s + 1) * frame}, false);
  }
}

// Marks that have no event yet are not given one here: what was freed a moment ago is wanted again soon, and
// a heap that moved it would move it back in every step (measured on the profile of kineto_replay_test.cpp).
void Arenas::gather(std::uint64_t wanted) {
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
void Arenas::strip(Arena* arena, Handle piece, std::uint64_t wanted) {
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

bool Arenas::settle_passed() {
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

Mark Arenas::largest_last_use() const {
  Mark mark;
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
  return mark;
}

std::string Arenas::check_invariants() const {
  for (const Arena& arena : arenas_) {
    if (std::string wrong = arena.placement.check_invariants(); !wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace terrace::liballoc::gpu
