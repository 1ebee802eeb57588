#include "daemon/planner/reuse/allocators/chunks.h"

#include <algorithm>
#include <iterator>

namespace terrace::planner {

Chunks::Handle Chunks::new_chunk(const Chunk& chunk) {
  if (spare_.empty()) {
    chunks_.push_back(chunk);
    return static_cast<Handle>(chunks_.size() - 1);
  }
  const Handle handle = spare_.back();
  spare_.pop_back();
  chunks_[handle] = chunk;
  return handle;
}

void Chunks::list(Handle chunk) {
  const Chunk& c = chunks_[chunk];
  free_[c.pool].insert({c.bytes, c.address, chunk});
}

void Chunks::unlist(Handle chunk) {
  const Chunk& c = chunks_[chunk];
  free_[c.pool].erase({c.bytes, c.address, chunk});
}

std::uint64_t Chunks::place_region(std::uint64_t bytes) {
  for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
    if (hole->second < bytes) continue;
    const auto [address, size] = *hole;
    holes_.erase(hole);
    if (size > bytes) holes_.emplace(address + bytes, size - bytes);
    return address;
  }
  const std::uint64_t address = line_end_;
  line_end_ += bytes;
  return address;
}

void Chunks::add_region(std::uint64_t bytes, std::uint32_t pool) {
  const std::uint64_t address = place_region(bytes);
  regions_.emplace(address, bytes);
  reserved_ += bytes;
  peak_reserved_ = std::max(peak_reserved_, reserved_);
  list(new_chunk({address, bytes, none, none, pool, false}));
}

Chunks::Handle Chunks::best_fit(std::uint32_t pool, std::uint64_t bytes) const {
  const auto fit = free_[pool].lower_bound({bytes, 0, none});
  return fit == free_[pool].end() ? none : fit->chunk;
}

Chunks::Handle Chunks::free_chunk_at(std::uint32_t pool, std::uint64_t address) const {
  const FreeSet& free = free_[pool];
  const auto found =
      std::find_if(free.begin(), free.end(), [&](const FreeKey& key) { return key.address == address; });
  return found == free.end() ? none : found->chunk;
}

void Chunks::split_off(Handle chunk, std::uint64_t bytes) {
  const Chunk whole = chunks_[chunk];
  const Handle rest =
      new_chunk({whole.address + bytes, whole.bytes - bytes, chunk, whole.after, whole.pool, false});
  if (whole.after != none) chunks_[whole.after].before = rest;
  chunks_[chunk].after = rest;
  chunks_[chunk].bytes = bytes;
  list(rest);
}

std::uint64_t Chunks::take(Handle chunk, std::uint64_t bytes, bool split) {
  unlist(chunk);
  if (split && chunks_[chunk].bytes > bytes) split_off(chunk, bytes);
  Chunk& c = chunks_[chunk];
  c.used = true;
  in_use_.emplace(c.address, chunk);
  allocated_ += c.bytes;
  peak_allocated_ = std::max(peak_allocated_, allocated_);
  return c.address;
}

void Chunks::merge_with_next(Handle chunk) {
  const Handle next = chunks_[chunk].after;
  chunks_[chunk].bytes += chunks_[next].bytes;
  chunks_[chunk].after = chunks_[next].after;
  if (chunks_[next].after != none) chunks_[chunks_[next].after].before = chunk;
  chunks_[next] = Chunk{};
  spare_.push_back(next);
}

bool Chunks::release(std::uint64_t address) {
  const auto found = in_use_.find(address);
  if (found == in_use_.end()) return false;
  Handle chunk = found->second;
  in_use_.erase(found);
  chunks_[chunk].used = false;
  allocated_ -= chunks_[chunk].bytes;
  const Handle after = chunks_[chunk].after;
  if (after != none && !chunks_[after].used) {
    unlist(after);
    merge_with_next(chunk);
  }
  const Handle before = chunks_[chunk].before;
  if (before != none && !chunks_[before].used) {
    unlist(before);
    merge_with_next(before);
    chunk = before;
  }
  list(chunk);
  return true;
}

bool Chunks::whole_region(Handle chunk) const {
  return chunks_[chunk].before == none && chunks_[chunk].after == none;
}

std::uint64_t Chunks::free_region_bytes() const {
  std::uint64_t bytes = 0;
  for (const FreeSet& pool : free_) {
    for (const FreeKey& key : pool) bytes += whole_region(key.chunk) ? key.bytes : 0;
  }
  return bytes;
}

void Chunks::add_hole(std::uint64_t address, std::uint64_t bytes) {
  const auto next = holes_.lower_bound(address);
  if (next != holes_.end() && next->first == address + bytes) {
    bytes += next->second;
    holes_.erase(next);
  }
  const auto after = holes_.lower_bound(address);
  if (after != holes_.begin() && std::prev(after)->first + std::prev(after)->second == address) {
    std::prev(after)->second += bytes;
    return;
  }
  holes_.emplace(address, bytes);
}

std::uint64_t Chunks::release_free_regions() {
  std::uint64_t released = 0;
  for (FreeSet& pool : free_) {
    for (auto it = pool.begin(); it != pool.end();) {
      if (!whole_region(it->chunk)) {
        ++it;
        continue;
      }
      const FreeKey key = *it;
      it = pool.erase(it);
      regions_.erase(key.address);
      add_hole(key.address, key.bytes);
      chunks_[key.chunk] = Chunk{};
      spare_.push_back(key.chunk);
      released += key.bytes;
    }
  }
  reserved_ -= released;
  return released;
}

std::string Chunks::check_chunk(Handle chunk) const {
  const Chunk& c = chunks_[chunk];
  const std::string name = "the chunk at " + std::to_string(c.address);
  const bool listed = free_[c.pool].count({c.bytes, c.address, chunk}) == 1;
  const auto used = in_use_.find(c.address);
  if (listed == c.used) return name + " is in the wrong list of free chunks";
  if ((used != in_use_.end() && used->second == chunk) != c.used)
    return name + " is wrongly in the map of used chunks";
  if (c.after == none) return {};
  const Chunk& next = chunks_[c.after];
  if (next.before != chunk || next.address != c.address + c.bytes)
    return name + " does not meet its neighbour";
  if (next.pool != c.pool) return name + " and its neighbour are of two pools";
  if (!c.used && !next.used) return name + " and its neighbour are free and not merged";
  return {};
}

std::string Chunks::check_invariants() const {
  std::uint64_t covered = 0;
  std::uint64_t used = 0;
  std::uint64_t seen = 0;
  for (Handle h = 0; h < chunks_.size(); ++h) {
    if (chunks_[h].bytes == 0) continue;  // spare
    ++seen;
    covered += chunks_[h].bytes;
    used += chunks_[h].used ? chunks_[h].bytes : 0;
    if (chunks_[h].before == none && regions_.count(chunks_[h].address) == 0) {
      return "the chunk at " + std::to_string(chunks_[h].address) + " is the first chunk of no region";
    }
    if (std::string wrong = check_chunk(h); !wrong.empty()) return wrong;
  }
  std::uint64_t listed = in_use_.size();
  for (const FreeSet& pool : free_) listed += pool.size();
  if (listed != seen) return "there are more chunks listed than there are";
  if (covered != reserved_ || used != allocated_) return "the sums do not agree with the chunks";
  std::uint64_t end = 0;
  for (const auto& [address, bytes] : regions_) {
    if (address < end) return "the region at " + std::to_string(address) + " overlaps the one below";
    end = address + bytes;
  }
  return end > line_end_ ? "a region ends beyond the line" : std::string{};
}

}  // namespace terrace::planner
