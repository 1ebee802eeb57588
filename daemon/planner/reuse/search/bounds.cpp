#include "daemon/planner/reuse/search/bounds.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace terrace::planner::search {

Bounds::Bounds(const Problem& problem, std::span<const std::uint32_t> order, bool learn)
    : cells_(order.size()),
      low_why_(order.size(), learn ? order.size() : 0),
      floor_why_(order.size(), learn ? order.size() : 0) {
  std::map<std::tuple<std::int32_t, std::int32_t, std::int64_t, std::int64_t>, Rank> latest;
  for (Rank r = 0; r < order.size(); ++r) {
    const Item& item = problem.items[order[r]];
    const auto [twin, fresh] = latest.try_emplace({item.first, item.last, item.bytes, item.alignment}, r);
    cells_[r] = {item.bytes, 0,         0,        item.alignment,
                 item.first, item.last, order[r], fresh ? no_rank : twin->second};
    twin->second = r;
  }
}

void Bounds::save(Rank r) {
  trail_.push_back({r, cells_[r].low, cells_[r].floor});
  saved_why_.insert(saved_why_.end(), low_why_.row(r), low_why_.row(r) + words());
  saved_why_.insert(saved_why_.end(), floor_why_.row(r), floor_why_.row(r) + words());
}

void Bounds::set_floor(Rank r, std::int64_t floor) {
  remove_from_hash(r);
  cells_[r].floor = floor;
  add_to_hash(r);
}

void Bounds::raise(Rank r, std::int64_t low, const Word* why) {
  save(r);
  cells_[r].low = low;
  std::copy_n(why, words(), low_why_.row(r));
}

// r is above `base`, not below, because it would not fit there: its bytes alone reach beyond the offset, or
// its low does; in the second case the reason of low is part of this one.
void Bounds::stack(Rank r, Rank base, std::int64_t offset) {
  Cell& cell = cells_[r];
  const std::int64_t top = align_up(offset + cells_[base].bytes, cell.alignment);
  if (cell.floor >= top) return;
  save(r);
  set_floor(r, top);
  if (words() > 0) {
    if (cell.bytes > offset) {
      std::fill_n(floor_why_.row(r), words(), Word{0});
    } else {
      std::copy_n(low_why_.row(r), words(), floor_why_.row(r));
    }
    BitRows::set(floor_why_.row(r), base);
  }
  if (cell.low >= top) return;
  cell.low = top;
  std::copy_n(floor_why_.row(r), words(), low_why_.row(r));
}

void Bounds::restart(Rank r) {
  if (cells_[r].low == cells_[r].floor) return;
  save(r);
  cells_[r].low = cells_[r].floor;
  std::copy_n(floor_why_.row(r), words(), low_why_.row(r));
}

void Bounds::undo(std::size_t mark) {
  while (trail_.size() > mark) {
    const auto [r, low, floor] = trail_.back();
    cells_[r].low = low;
    if (cells_[r].floor != floor) set_floor(r, floor);
    const Word* why = saved_why_.data() + (trail_.size() - 1) * 2 * words();
    std::copy_n(why, words(), low_why_.row(r));
    std::copy_n(why + words(), words(), floor_why_.row(r));
    trail_.pop_back();
  }
  saved_why_.resize(trail_.size() * 2 * words());
}

}  // namespace terrace::planner::search
