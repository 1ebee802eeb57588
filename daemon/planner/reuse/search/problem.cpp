#include "daemon/planner/reuse/search/problem.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace terrace::planner::search {
namespace {

Item item_of(const Buffer& b, std::uint32_t n, std::int32_t section) {
  const double width = static_cast<double>(b.upper) - b.lower;
  return {static_cast<std::int64_t>(b.bytes),
          static_cast<std::int64_t>(b.alignment),
          section,
          section,
          width,
          width * static_cast<double>(b.bytes),
          0,
          n};
}

// Sections close at an end that follows a begin: then the live set is maximal.
class Sweep {
 public:
  explicit Sweep(const std::vector<Buffer>& buffers) : buffers_(buffers), item_of_(buffers.size()) {}

  std::vector<Problem> run() {
    for (const LifeEvent& e : events_of(buffers_)) e.begins ? begin(e.buffer) : end(e.buffer);
    return std::move(done_);
  }

 private:
  void begin(std::uint32_t n) {
    item_of_[n] = static_cast<std::uint32_t>(now_.items.size());
    now_.items.push_back(item_of(buffers_[n], n, now_.sections));
    grew_ = true;
    ++live_;
  }

  void end(std::uint32_t n) {
    if (grew_) ++now_.sections;
    grew_ = false;
    now_.items[item_of_[n]].last = now_.sections - 1;
    if (--live_ == 0) done_.push_back(std::exchange(now_, Problem{}));
  }

  const std::vector<Buffer>& buffers_;
  std::vector<std::uint32_t> item_of_;
  std::vector<Problem> done_;
  Problem now_;
  bool grew_ = false;
  std::size_t live_ = 0;
};

void sum_sections(Problem& problem) {
  std::vector<std::int64_t> change(static_cast<std::size_t>(problem.sections) + 1);
  for (const Item& item : problem.items) {
    change[static_cast<std::size_t>(item.first)] += item.bytes;
    change[static_cast<std::size_t>(item.last) + 1] -= item.bytes;
  }
  for (std::size_t s = 1; s < change.size(); ++s) change[s] += change[s - 1];
  problem.bound = *std::max_element(change.begin(), change.end());
  for (Item& item : problem.items)
    item.crowd = *std::max_element(change.begin() + item.first, change.begin() + item.last + 1);
}

}  // namespace

bool live_within(const Instance& instance, std::uint64_t limit) {
  std::uint64_t live = 0;
  for (const LifeEvent& e : events_of(instance.buffers)) {
    const std::uint64_t bytes = instance.buffers[e.buffer].bytes;
    if (e.begins && bytes > limit - live) return false;
    live = e.begins ? live + bytes : live - bytes;
  }
  return true;
}

std::int64_t granule(const Problem& problem) {
  std::int64_t divisor = 0;
  for (const Item& item : problem.items) divisor = std::gcd(divisor, item.bytes);
  for (const Item& item : problem.items)
    if (divisor % item.alignment != 0) return 1;
  return std::max<std::int64_t>(divisor, 1);
}

std::vector<Problem> partitions(const Instance& instance) {
  std::vector<Problem> all = Sweep(instance.buffers).run();
  for (Problem& problem : all) sum_sections(problem);
  return all;
}

}  // namespace terrace::planner::search
