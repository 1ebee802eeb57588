// See tier_rules.h.
#include "daemon/settings/tier_rules.h"

#include <fmt/format.h>

#include <utility>

namespace terrace::daemon {
namespace {

using Unit = Amount::Unit;

constexpr Resource all_resources[] = {Resource::dram, Resource::pool, Resource::writes, Resource::gpu};

bool is_percent(const std::optional<Amount>& amount) { return amount && amount->unit == Unit::percent; }
bool is_size(const std::optional<Amount>& amount) { return amount && amount->unit == Unit::bytes; }

// What a rule says and nobody can say how much it is; "" where all is well.
std::string without_whole(const Config& config, Resource resource, const Bounds& said) {
  if (resource == Resource::pool && !config.pool_bytes && (said.guarantee || is_percent(said.limit)))
    return fmt::format("{} is a part of [pool] size, which is not set; set it{}",
                       said.guarantee ? "pool_guarantee" : "pool_limit",
                       said.guarantee ? "" : ", or give a size");
  if (resource == Resource::writes && !config.writes_per_day && said.is_said())
    return fmt::format("{} is a part of [pool] writes_per_day, which is not set; set it",
                       said.guarantee ? "writes_guarantee" : "writes_limit");
  const bool is_part = config.gpu_memory.unit == Unit::percent;
  if (resource == Resource::gpu && is_part && (is_size(said.guarantee) || is_size(said.limit)))
    return fmt::format(
        "{} is a size, and [gpu] memory is a percentage of each device; give both as percentages, or both as "
        "sizes",
        is_size(said.guarantee) ? "gpu_guarantee" : "gpu_limit");
  return {};
}

template <class Rule>
std::string first_without_whole(const Config& config, Resource resource, const std::vector<Rule>& rules) {
  for (const Rule& rule : rules) {
    const std::string wrong = without_whole(config, resource, bounds_of(rule, resource));
    if (!wrong.empty()) return fmt::format("{}: {}", line_of(rule), wrong);
  }
  return {};
}

std::string wrong_rules_of(const Config& config, Resource resource, std::uint64_t dram_bytes) {
  std::string wrong = first_without_whole(config, resource, config.shares);
  if (wrong.empty()) wrong = first_without_whole(config, resource, config.groups);
  if (wrong.empty()) wrong = first_without_whole(config, resource, config.jobs);
  if (!wrong.empty()) return wrong;
  return resolve_shares(config.shares, config.groups, config.jobs,
                        whole_bytes(config, resource, dram_bytes).value_or(no_limit), resource)
      .error;
}

}  // namespace

std::optional<std::uint64_t> whole_bytes(const Config& config, Resource resource, std::uint64_t dram_bytes) {
  switch (resource) {
    case Resource::dram:
      return dram_bytes;
    case Resource::pool:
      return config.pool_bytes;
    case Resource::writes:
      return config.writes_per_day;
    case Resource::gpu:
      return config.gpu_memory.unit == Unit::percent ? nominal_gpu_bytes : config.gpu_memory.value;
  }
  return std::nullopt;
}

std::string wrong_tier_rules(const Config& config, std::uint64_t dram_bytes) {
  std::string wrong;
  for (const Resource resource : all_resources)
    if (wrong.empty()) wrong = wrong_rules_of(config, resource, dram_bytes);
  return wrong;
}

SharesResult shares_of(const Config& config, Resource resource, std::uint64_t dram_bytes) {
  const std::uint64_t whole = whole_bytes(config, resource, dram_bytes).value_or(no_limit);
  SharesResult result = resolve_shares(config.shares, config.groups, config.jobs, whole, resource);
  const auto cap = [&]() -> Amount {
    switch (resource) {
      case Resource::dram:
        return config.per_user;
      case Resource::pool:
        return config.pool_per_user;
      case Resource::writes:
        return config.writes_per_user;
      case Resource::gpu:
        return config.gpu_per_user;
    }
    return Amount::percent(100);
  }();
  const bool is_whole_known = whole != no_limit;
  if (is_whole_known || cap.unit == Unit::bytes) result.shares.set_cap(cap.of(whole));
  if (resource == Resource::dram) result.shares.set_job_cap(config.per_job.of(whole));
  result.shares.set_lends_idle(resource == Resource::gpu ? config.gpu_lends_idle : config.lends_idle);
  return result;
}

}  // namespace terrace::daemon
