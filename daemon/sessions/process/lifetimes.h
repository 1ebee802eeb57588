// What a job's events say about its allocations: per call site and size, how many, how long they live, how
// often their pages were waited for. Input is hostile, so everything is bounded: past the bounds, counts go
// to "others" and lifetimes are not followed. All sessions together have room for some thousands of sites and
// live allocations, each an equal part: a thousand jobs must not make the daemon large.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "liballoc/wire/segment.h"

namespace terrace::daemon {

struct Site {
  std::uint64_t call_site = 0;
  std::uint64_t bytes = 0;  // of one allocation
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t lifetime_sum_ns = 0;  // over frees whose allocation was seen
  std::uint64_t lifetime_count = 0;
  std::uint64_t longest_ns = 0;
};

class Lifetimes {
 public:
  static constexpr std::size_t max_sites = 512;
  static constexpr std::size_t max_live = 4096;
  static constexpr std::size_t sites_of_all = 16 * max_sites;  // some 100 bytes each
  static constexpr std::size_t live_of_all = 16 * max_live;    // some 60 bytes each

  Lifetimes() = default;
  Lifetimes(const Lifetimes&) = delete;
  Lifetimes& operator=(const Lifetimes&) = delete;

  // So many sessions share the room from now on. What is there already stays.
  void share_room(std::size_t sessions);
  // `event.kind` must be a known one (RingReader sees to it).
  void take(const wire::Event& event);

  // The `limit` sites with most bytes allocated.
  std::vector<Site> top(std::size_t limit) const;
  const Site& others() const { return others_; }
  std::uint64_t count(wire::EventKind kind) const { return counts_[static_cast<std::size_t>(kind)]; }
  std::size_t sites() const { return sites_.size(); }
  std::size_t live() const { return live_.size(); }

 private:
  struct Key {
    std::uint64_t call_site;
    std::uint64_t bytes;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const noexcept;
  };
  struct Birth {
    std::uint64_t time_ns;
    Site* site;  // elements of an unordered_map do not move
  };

  Site& site_of(const wire::Event& event);
  void take_alloc(const wire::Event& event);
  void take_free(const wire::Event& event);

  std::unordered_map<Key, Site, KeyHash> sites_;
  std::unordered_map<std::uint64_t, Birth> live_;
  Site others_;
  std::size_t most_sites_ = max_sites;
  std::size_t most_live_ = max_live;
  std::uint64_t counts_[static_cast<std::size_t>(wire::EventKind::count)] = {};
};

}  // namespace terrace::daemon
