#include "liballoc/gpu/heap/placement.h"

#include <algorithm>
#include <limits>

namespace terrace::liballoc::gpu {

Placement::Placement(std::uint64_t begin, std::uint64_t bytes, std::uint64_t frame_bytes)
    : begin_(begin), end_(begin + bytes), frame_bytes_(frame_bytes), mapped_(1) {
  list(new_piece({begin_, end_, none, none, {}, false, false}));
}

Placement::Index& Placement::index_of(const Piece& piece) {
  if (!piece.mapped) return unmapped_;
  if (piece.mark.owner >= mapped_.size()) mapped_.resize(piece.mark.owner + 1);
  return mapped_[piece.mark.owner];
}

void Placement::list(Handle h) {
  Index& index = index_of(pieces_[h]);
  if (nodes_.empty()) {
    index.insert(key(h));
    return;
  }
  Index::node_type node = std::move(nodes_.back());
  nodes_.pop_back();
  node.value() = key(h);
  index.insert(std::move(node));
}

void Placement::unlist(Handle h) { nodes_.push_back(index_of(pieces_[h]).extract(key(h))); }

bool Placement::alike(const Piece& a, const Piece& b) const {
  if (a.used || b.used || a.mapped != b.mapped) return false;
  return a.mark.owner == b.mark.owner || a.mark.owner == nobody || b.mark.owner == nobody;
}

bool Placement::usable(Handle h, Owner owner) const {
  if (h == none || pieces_[h].used) return false;
  return pieces_[h].mark.owner == owner || pieces_[h].mark.owner == nobody;
}

Placement::Handle Placement::new_piece(const Piece& piece) {
  if (spare_.empty()) {
    pieces_.push_back(piece);
    return static_cast<Handle>(pieces_.size() - 1);
  }
  const Handle h = spare_.back();
  spare_.pop_back();
  pieces_[h] = piece;
  return h;
}

void Placement::drop(Handle h) {
  pieces_[h] = Piece{};
  spare_.push_back(h);
}

Placement::Handle Placement::split(Handle h, std::uint64_t at) {
  Piece behind = pieces_[h];
  behind.begin = at;
  behind.before = h;
  const Handle n = new_piece(behind);
  if (behind.after != none) pieces_[behind.after].before = n;
  pieces_[h].end = at;
  pieces_[h].after = n;
  return n;
}

void Placement::swallow_next(Handle h) {
  const Handle next = pieces_[h].after;
  const Piece& gone = pieces_[next];
  Mark& mark = pieces_[h].mark;
  if (mark.owner == nobody) mark.owner = gone.mark.owner;
  mark.sequence = std::max(mark.sequence, gone.mark.sequence);
  pieces_[h].end = gone.end;
  pieces_[h].after = gone.after;
  if (gone.after != none) pieces_[gone.after].before = h;
  drop(next);
}

Placement::Handle Placement::merge(Handle h) {
  while (pieces_[h].after != none && alike(pieces_[h], pieces_[pieces_[h].after])) {
    unlist(pieces_[h].after);
    swallow_next(h);
  }
  while (pieces_[h].before != none && alike(pieces_[pieces_[h].before], pieces_[h])) {
    h = pieces_[h].before;
    unlist(h);
    swallow_next(h);
  }
  list(h);
  return h;
}

Placement::Handle Placement::best_fit(std::uint64_t bytes, Owner owner) const {
  Handle best = none;
  const auto look = [&](const Index& index) {
    const auto it = index.lower_bound({bytes, 0, none});
    if (it != index.end() && (best == none || *it < key(best))) best = it->handle;
  };
  look(mapped_[nobody]);
  if (owner != nobody && owner < mapped_.size()) look(mapped_[owner]);
  return best;
}

Placement::Handle Placement::take(Handle first, Span span) {
  unlist(first);
  Handle block = first;
  if (span.begin > pieces_[first].begin) {
    block = split(first, span.begin);
    list(first);
  }
  while (pieces_[block].end < span.end) {
    const Handle next = pieces_[block].after;
    unlist(next);
    if (pieces_[next].end > span.end) list(split(next, span.end));
    swallow_next(block);
  }
  if (pieces_[block].end > span.end) list(split(block, span.end));
  pieces_[block].used = true;
  used_bytes_ += span.end - span.begin;
  return block;
}

Placement::Handle Placement::release(Handle block, Mark mark) {
  Piece& piece = pieces_[block];
  used_bytes_ -= piece.end - piece.begin;
  piece.used = false;
  piece.mapped = true;
  piece.mark = mark;
  return merge(block);
}

Placement::Handle Placement::settle(Handle piece) {
  unlist(piece);
  pieces_[piece].mark = {};
  return merge(piece);
}

Placement::Handle Placement::find(Handle near, std::uint64_t offset) const {
  while (pieces_[near].begin > offset) near = pieces_[near].before;
  while (pieces_[near].end <= offset) near = pieces_[near].after;
  return near;
}

void Placement::set_mapped(Handle near, Span span, bool mapped) {
  Handle h = find(near, span.begin);
  while (h != none && pieces_[h].begin < span.end) {
    if (!pieces_[h].used && pieces_[h].mapped != mapped) {
      unlist(h);
      if (pieces_[h].begin < span.begin) {
        const Handle inside = split(h, span.begin);
        list(h);
        h = inside;
      }
      if (pieces_[h].end > span.end) list(split(h, span.end));
      pieces_[h].mapped = mapped;
      pieces_[h].mark = {};
      h = merge(h);
    }
    h = pieces_[h].after;
  }
}

std::uint64_t Placement::missing(Handle first, Span span) const {
  std::uint64_t frames = 0;
  for (Handle h = first; h != none && pieces_[h].begin < span.end; h = pieces_[h].after) {
    if (pieces_[h].mapped) continue;
    const std::uint64_t begin = std::max(pieces_[h].begin, span.begin) / frame_bytes_;
    const std::uint64_t end = (std::min(pieces_[h].end, span.end) + frame_bytes_ - 1) / frame_bytes_;
    frames += end - begin;
  }
  return frames;
}

// The range that begins where the mapped memory around `h` begins and grows behind it; if a block stands
// there, it is moved before it.
std::optional<Placement::Choice> Placement::grown(Handle h, std::uint64_t bytes, Owner owner) const {
  Handle first = h;
  if (!pieces_[h].mapped && usable(pieces_[h].before, owner)) first = pieces_[h].before;
  Handle last = first;
  while (pieces_[last].end - pieces_[first].begin < bytes && usable(pieces_[last].after, owner)) {
    last = pieces_[last].after;
  }
  std::uint64_t begin = pieces_[first].begin;
  while (pieces_[last].end - pieces_[first].begin < bytes && usable(pieces_[first].before, owner)) {
    first = pieces_[first].before;
  }
  if (pieces_[last].end - pieces_[first].begin < bytes) return std::nullopt;
  begin = std::min(begin, pieces_[last].end - bytes);
  const Span span{begin, begin + bytes};
  while (pieces_[first].end <= begin) first = pieces_[first].after;
  return Choice{first, span, missing(first, span)};
}

std::optional<Placement::Choice> Placement::cheapest_span(std::uint64_t bytes, Owner owner) const {
  constexpr int looked_at = 8;
  std::optional<Choice> best;
  const auto offer = [&](Handle h) {
    const auto choice = grown(h, bytes, owner);
    if (choice && (!best || choice->missing_frames < best->missing_frames)) best = choice;
  };
  for (const Owner o : {owner, nobody}) {
    if (o >= mapped_.size()) continue;
    auto it = mapped_[o].rbegin();
    for (int i = 0; i < looked_at && it != mapped_[o].rend(); ++i, ++it) offer(it->handle);
    if (owner == nobody) break;
  }
  const auto fitting = unmapped_.lower_bound({bytes, 0, none});
  if (fitting != unmapped_.end()) offer(fitting->handle);
  if (!unmapped_.empty()) offer(unmapped_.rbegin()->handle);
  return best;
}

std::string Placement::check_piece(Handle h) const {
  const Piece& p = pieces_[h];
  const std::string at = " at " + std::to_string(p.begin);
  if (p.begin >= p.end || p.begin % granularity != 0) return "an empty or misaligned piece" + at;
  const bool listed =
      !p.used && (p.mapped ? p.mark.owner < mapped_.size() && mapped_[p.mark.owner].contains(key(h))
                           : unmapped_.contains(key(h)));
  if (!p.used && !listed) return "a free piece in no tree" + at;
  if (!p.used && !p.mapped && p.mark != Mark{}) return "a piece without frames with a use to wait for" + at;
  if (p.after == none) return p.end == end_ ? "" : "the range's end is lost" + at;
  if (pieces_[p.after].begin != p.end || pieces_[p.after].before != h) return "neighbours disagree" + at;
  return alike(p, pieces_[p.after]) ? "two free pieces of a kind side by side" + at : "";
}

std::string Placement::check_invariants() const {
  std::uint64_t used = 0;
  std::size_t free = 0, listed = unmapped_.size();
  for (const Index& index : mapped_) listed += index.size();
  Handle h = none;
  for (Handle i = 0; i < pieces_.size() && h == none; ++i) {
    if (pieces_[i].end > pieces_[i].begin && pieces_[i].begin == begin_) h = i;
  }
  if (h == none) return "the range's beginning is lost";
  for (; h != none; h = pieces_[h].after) {
    if (std::string wrong = check_piece(h); !wrong.empty()) return wrong;
    (pieces_[h].used ? used : free) += pieces_[h].used ? pieces_[h].end - pieces_[h].begin : 1;
  }
  if (used != used_bytes_) return "used bytes are miscounted";
  return free == listed ? "" : "a tree has a piece that is not free";
}

}  // namespace terrace::liballoc::gpu
