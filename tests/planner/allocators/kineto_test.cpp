// The simulator of PyTorch's allocator against what PyTorch did: 13,385 allocations of a training run on a
// V100, with their addresses, from a profile of a few steps in the middle of the run.
//
// "Total Reserved" is 12,782,141,440 at every event: the segments come from the steps before the profile
// began, whose allocations are not in it, and 4.1 GB of older blocks stay alive all the time. So the curve of
// reserved bytes cannot be replayed. What can be checked against reality is every single decision: which free
// block was taken. The free space at the start is what the profile's own blocks use later; where segments end
// is not recorded, and is inferred (Segments below) from the addresses themselves.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "daemon/planner/reuse/allocators/caching.h"
#include "tests/planner/reference_data.h"
#include "tests/units.h"

namespace terrace::planner {
namespace {

using terrace::tests::mib;
constexpr std::uint64_t segment_unit = 2 * mib;

struct Event {
  std::int64_t time;
  std::int64_t number;
  std::uint64_t address;
  std::int64_t bytes;  // negative: freed
  std::uint64_t allocated;
  std::uint64_t reserved;

  bool operator<(const Event& other) const {
    return std::pair(time, number) < std::pair(other.time, other.number);
  }
};

// The memory events of the GPU. They are cut out of the text before they are parsed: they are 28,010 of
// 300,000 events, have one nested object, "args", and parsing all takes seconds.
std::vector<Event> events_of(const std::string& text) {
  std::vector<Event> events;
  const std::string name = "\"name\": \"[memory]\"";
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const std::size_t begin = text.rfind('{', at);
    const std::size_t end = text.find('}', text.find('}', at) + 1);
    const nlohmann::json event = nlohmann::json::parse(text.substr(begin, end + 1 - begin));
    const nlohmann::json& a = event["args"];
    if (a["Device Type"] != 1) continue;
    events.push_back(
        {event["ts"], a["Ev Idx"], a["Addr"], a["Bytes"], a["Total Allocated"], a["Total Reserved"]});
  }
  std::sort(events.begin(), events.end());
  return events;
}

std::uint32_t pool_of(std::uint64_t bytes) { return bytes <= CachingAllocator::small_bytes ? 0 : 1; }

struct Block {
  std::uint64_t begin;
  std::uint64_t end;
};

std::vector<Block> distinct_blocks(const std::vector<Event>& events, std::uint32_t pool) {
  std::map<std::pair<std::uint64_t, std::uint64_t>, int> seen;
  for (const Event& e : events) {
    if (e.bytes > 0 && pool_of(static_cast<std::uint64_t>(e.bytes)) == pool)
      ++seen[{e.address, e.address + static_cast<std::uint64_t>(e.bytes)}];
  }
  std::vector<Block> blocks;
  blocks.reserve(seen.size());
  for (const auto& entry : seen) blocks.push_back({entry.first.first, entry.first.second});
  return blocks;
}

struct Segment {
  std::uint64_t begin;
  std::uint64_t end;
  std::uint32_t pool;
  std::uint64_t most;  // where it must end at the latest: the next one
};

// Address ranges that blocks of one pool cover without a gap, cut where a segment may begin: at multiples of
// 2 MiB where a block begins and over which none lies.
void add_segments(const std::vector<Block>& blocks, std::uint32_t pool, std::vector<Segment>& segments) {
  std::uint64_t end = 0;
  for (const Block& block : blocks) {
    const bool cut = block.begin % segment_unit == 0 && block.begin >= end;
    if (block.begin > end || cut) segments.push_back({block.begin, block.end, pool, ~std::uint64_t{0}});
    end = std::max(end, block.end);
    segments.back().end = end;
  }
}

std::vector<Segment> segments_of(const std::vector<Event>& events) {
  std::vector<Segment> segments;
  for (const std::uint32_t pool : {0U, 1U}) add_segments(distinct_blocks(events, pool), pool, segments);
  std::sort(segments.begin(), segments.end(), [](auto& a, auto& b) { return a.begin < b.begin; });
  for (std::size_t i = 0; i + 1 < segments.size(); ++i) segments[i].most = segments[i + 1].begin;
  for (Segment& s : segments) {
    if (s.pool == 0) s.most = std::min(s.most, (s.begin / segment_unit + 1) * segment_unit);
  }
  return segments;
}

struct Outcome {
  std::uint32_t decisions = 0;
  std::uint32_t predicted = 0;  // the very address
  bool ends_moved = false;      // some segment was found to reach further
};

// Follows the recorded decisions and asks at each what the simulator would have done.
class Follower {
 public:
  explicit Follower(std::vector<Segment>& segments) : segments_(segments), needs_(segments.size(), 0) {
    std::uint64_t line = 0;
    for (const Segment& s : segments) {
      chunks_.add_region(s.end - s.begin, s.pool);
      line_begin_.push_back(line);
      line += s.end - s.begin;
    }
  }

  Outcome follow(const std::vector<Event>& events) {
    for (const Event& e : events) {
      if (e.bytes < 0) {
        REQUIRE(chunks_.release(on_line(e.address)));
      } else {
        allocate(e.address, static_cast<std::uint64_t>(e.bytes));
      }
    }
    REQUIRE(chunks_.check_invariants().empty());
    for (std::size_t i = 0; i < needs_.size(); ++i) {
      outcome_.ends_moved = outcome_.ends_moved || needs_[i] > 0;
      segments_[i].end += needs_[i];
    }
    return outcome_;
  }

 private:
  std::size_t segment_at(std::uint64_t address) const {
    const auto next = std::upper_bound(segments_.begin(), segments_.end(), address,
                                       [](std::uint64_t at, const Segment& s) { return at < s.begin; });
    return static_cast<std::size_t>(next - segments_.begin()) - 1;
  }

  std::uint64_t on_line(std::uint64_t address) const {
    const std::size_t i = segment_at(address);
    return line_begin_[i] + (address - segments_[i].begin);
  }

  void allocate(std::uint64_t address, std::uint64_t bytes) {
    const std::uint64_t where = on_line(address);
    const std::uint32_t pool = pool_of(bytes);
    const Chunks::Handle taken = chunks_.free_chunk_at(pool, where);
    const Chunks::Handle expected = chunks_.best_fit(pool, bytes);
    ++outcome_.decisions;
    REQUIRE(taken != Chunks::none);  // a block is always taken from a free one's begin
    if (taken == expected) {
      ++outcome_.predicted;
    } else {
      explain(expected, taken);
    }
    chunks_.take(taken, bytes, true);
  }

  // A smaller block was passed over: if it lies at the end of its segment, the segment may reach further.
  void explain(Chunks::Handle passed, Chunks::Handle taken) {
    const auto next = std::upper_bound(line_begin_.begin(), line_begin_.end(), chunks_.chunk_address(passed));
    const auto i = static_cast<std::size_t>(next - line_begin_.begin()) - 1;
    const std::uint64_t end = chunks_.chunk_address(passed) + chunks_.chunk_bytes(passed);
    if (end != line_begin_[i] + (segments_[i].end - segments_[i].begin) || needs_[i] > 0) return;
    const bool above = chunks_.chunk_address(passed) > chunks_.chunk_address(taken);
    const std::uint64_t need = chunks_.chunk_bytes(taken) - chunks_.chunk_bytes(passed) + (above ? 0 : 512);
    if (need > 0 && segments_[i].end + need <= segments_[i].most) needs_[i] = need;
  }

  std::vector<Segment>& segments_;
  std::vector<std::uint64_t> line_begin_;
  std::vector<std::uint64_t> needs_;
  Chunks chunks_{2};
  Outcome outcome_;
};

// Nothing where the reference data is missing.
const std::vector<Event>& recorded() {
  static const std::optional<std::string> text = test::reference_data("kineto/df_index_resolver.json.gz");
  static const std::vector<Event> events = text ? events_of(*text) : std::vector<Event>{};
  REQUIRE(events.size() == (text ? 26770 : 0));
  return events;
}

}  // namespace

TEST_CASE("PyTorch's own addresses are those of the simulator's rules") {
  const std::vector<Event>& events = recorded();
  if (events.empty()) return;
  std::vector<Segment> segments = segments_of(events);
  Outcome outcome{};
  std::uint32_t rounds = 0;
  do {
    outcome = Follower(segments).follow(events);
  } while (outcome.ends_moved && ++rounds < 40);
  CHECK(outcome.decisions == 13'385);
  // 12,825 when this was written (95.8%). The rest is one place where two segments are told apart that are
  // one.
  CHECK(outcome.predicted >= 12'800);
}

TEST_CASE("PyTorch's blocks are of the sizes and in the pools of the rules") {
  const std::vector<Event>& events = recorded();
  if (events.empty()) return;
  std::map<std::uint64_t, std::uint32_t> pool_of_page;  // of 2 MiB
  for (const Event& e : events) {
    if (e.bytes < 0) continue;
    const auto bytes = static_cast<std::uint64_t>(e.bytes);
    REQUIRE(bytes % CachingAllocator::granularity_bytes == 0);
    for (std::uint64_t page = e.address / segment_unit; page * segment_unit < e.address + bytes; ++page)
      REQUIRE(pool_of_page.emplace(page, pool_of(bytes)).first->second == pool_of(bytes));
  }
}

TEST_CASE("Replayed from nothing the simulator allocates what PyTorch did, and reserves less") {
  const std::vector<Event>& events = recorded();
  if (events.empty()) return;
  const std::uint64_t older = events.front().allocated - static_cast<std::uint64_t>(events.front().bytes);
  CachingAllocator caching;
  std::unordered_map<std::uint64_t, std::uint64_t> address_of;
  std::uint64_t most_apart = 0;
  for (const Event& e : events) {
    if (e.bytes > 0) {
      const auto address = caching.allocate(static_cast<std::uint64_t>(e.bytes));
      REQUIRE(address.has_value());
      address_of[e.address] = *address;
    } else {
      REQUIRE(caching.free(address_of.at(e.address)));
    }
    const std::uint64_t recorded_bytes = e.allocated - older;
    const std::uint64_t ours = caching.chunks().allocated_bytes();
    most_apart = std::max(most_apart, std::max(ours, recorded_bytes) - std::min(ours, recorded_bytes));
    REQUIRE(e.reserved == 12782141440);
  }
  // Only blocks with 1 MiB or less to spare differ, which one side splits off and the other cannot.
  CHECK(most_apart <= caching.chunks().peak_allocated_bytes() / 100);
  CHECK(caching.chunks().reserved_bytes() <= caching.chunks().peak_allocated_bytes() / 100 * 110);
  CHECK(caching.chunks().reserved_bytes() + older <= 12782141440);
}

}  // namespace terrace::planner
