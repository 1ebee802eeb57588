// See lifetimes.h.
#include "daemon/sessions/process/lifetimes.h"

#include <algorithm>

namespace terrace::daemon {

std::size_t Lifetimes::KeyHash::operator()(const Key& key) const noexcept {
  std::uint64_t mixed = (key.call_site ^ (key.bytes * 0x9E3779B97F4A7C15ULL)) * 0xD6E8FEB86659FD93ULL;
  return static_cast<std::size_t>(mixed ^ (mixed >> 32));
}

void Lifetimes::share_room(std::size_t sessions) {
  most_sites_ = std::min(max_sites, sites_of_all / std::max<std::size_t>(sessions, 1));
  most_live_ = std::min(max_live, live_of_all / std::max<std::size_t>(sessions, 1));
}

Site& Lifetimes::site_of(const wire::Event& event) {
  const Key key{event.call_site, event.bytes};
  const auto found = sites_.find(key);
  if (found != sites_.end()) return found->second;
  if (sites_.size() >= most_sites_) return others_;
  Site& site = sites_[key];
  site.call_site = event.call_site;
  site.bytes = event.bytes;
  return site;
}

void Lifetimes::take_alloc(const wire::Event& event) {
  Site& site = site_of(event);
  ++site.allocations;
  if (live_.size() < most_live_ || live_.contains(event.address))
    live_[event.address] = {event.time_ns, &site};
}

void Lifetimes::take_free(const wire::Event& event) {
  const auto birth = live_.find(event.address);
  if (birth == live_.end()) {
    ++others_.frees;
    return;
  }
  Site& site = *birth->second.site;
  const std::uint64_t born_ns = birth->second.time_ns;
  const std::uint64_t lifetime_ns = event.time_ns > born_ns ? event.time_ns - born_ns : 0;
  ++site.frees;
  ++site.lifetime_count;
  site.lifetime_sum_ns += lifetime_ns;
  site.longest_ns = std::max(site.longest_ns, lifetime_ns);
  live_.erase(birth);
}

void Lifetimes::take(const wire::Event& event) {
  ++counts_[static_cast<std::size_t>(event.kind)];
  if (event.kind == wire::EventKind::alloc) take_alloc(event);
  if (event.kind == wire::EventKind::free) take_free(event);
}

std::vector<Site> Lifetimes::top(std::size_t limit) const {
  std::vector<Site> all;
  all.reserve(sites_.size());
  for (const auto& [key, site] : sites_) all.push_back(site);
  std::sort(all.begin(), all.end(), [](const Site& a, const Site& b) {
    return static_cast<double>(a.bytes) * static_cast<double>(a.allocations) >
           static_cast<double>(b.bytes) * static_cast<double>(b.allocations);
  });
  if (all.size() > limit) all.resize(limit);
  return all;
}

}  // namespace terrace::daemon
