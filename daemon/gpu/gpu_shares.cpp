// See gpu_shares.h.
#include "daemon/gpu/gpu_shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

#include "daemon/base/size.h"

namespace terrace::daemon {
namespace {

constexpr std::uint64_t most_device_bytes = std::uint64_t{1} << 44;  // 16 TiB

Refusal no_such_size(const GpuClaim& claim) {
  return {EINVAL, 0,
          fmt::format("\"{}\" with {} is no GPU: a heap gives the name of its GPU, and a size of at least {}",
                      claim.device, format_size(claim.device_bytes), format_size(Arbiter::minimum_bytes))};
}

Refusal too_many_devices() {
  return {EUSERS, 0,
          fmt::format("this user's heaps are on {} GPUs already; end one", GpuShares::most_devices_of_user)};
}

Refusal is_full(const GpuClaim& claim, const Refusal& refusal) {
  return {
      refusal.error, refusal.available_bytes,
      fmt::format(
          "{} has only {} left, since guarantees of others and limits of this user take the rest: wait for a "
          "job to end, or ask an administrator to change gpu_guarantee or gpu_limit in terraced.toml",
          claim.device, format_size(refusal.available_bytes))};
}

}  // namespace

void GpuShares::set_rules(wire::Amount memory, UserShares users, std::uint64_t whole_bytes) {
  users.set_caps_loans(true);
  users.set_keeps_guarantees(true);
  users.keep_job_limits(users_);
  memory_ = memory;
  users_ = std::move(users);
  whole_bytes_ = std::max<std::uint64_t>(whole_bytes, 1);
  for (auto& [name, device] : devices_) divide(&device);
}

void GpuShares::divide(Device* device) {
  const std::uint64_t budget = std::min(memory_.of(device->bytes), device->bytes);
  device->arbiter.set_machine_budget(budget);
  device->arbiter.set_users(users_.scaled(whole_bytes_, budget));
}

// Of each user the least that his heaps say, and of those the middle.
std::uint64_t GpuShares::said_bytes(const std::string& device) const {
  std::map<std::uint32_t, std::uint64_t> least;
  for (const auto& [id, session] : sessions_) {
    if (session.device != device) continue;
    const auto [said, is_first] = least.try_emplace(session.job.uid, session.said_bytes);
    if (!is_first) said->second = std::min(said->second, session.said_bytes);
  }
  std::vector<std::uint64_t> all;
  all.reserve(least.size());
  for (const auto& [uid, bytes] : least) all.push_back(bytes);
  std::sort(all.begin(), all.end());
  return all.empty() ? 0 : all[all.size() / 2];
}

void GpuShares::size(const std::string& name, Device* device) {
  const std::uint64_t bytes = said_bytes(name);
  if (bytes == device->bytes) return;
  device->bytes = bytes;
  divide(device);
}

std::size_t GpuShares::devices_of(std::uint32_t uid, const std::string& beside) const {
  std::set<std::string> names;
  for (const auto& [id, session] : sessions_)
    if (session.job.uid == uid && session.device != beside) names.insert(session.device);
  return names.size();
}

std::optional<Refusal> GpuShares::join(SessionId id, const JobKey& job, const GpuClaim& claim) {
  if (claim.device.empty() || claim.device_bytes < Arbiter::minimum_bytes ||
      claim.device_bytes > most_device_bytes)
    return no_such_size(claim);
  if (devices_of(job.uid, claim.device) >= most_devices_of_user) return too_many_devices();
  sessions_[id] = {claim.device, job, claim.device_bytes, 0};
  Device& device = devices_[claim.device];
  size(claim.device, &device);
  if (claim.is_back) {
    device.arbiter.readmit(id, job, 0, claim.held_bytes);
  } else if (const auto refusal = device.arbiter.admit(id, job, 0)) {
    leave(id);
    return is_full(claim, *refusal);
  }
  if (claim.weight != 0) device.arbiter.set_job_weight(job, claim.weight);
  return std::nullopt;
}

void GpuShares::leave(SessionId id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  const std::string name = std::move(found->second.device);
  sessions_.erase(found);
  const auto device = devices_.find(name);
  device->second.arbiter.leave(id);
  const bool is_used = std::any_of(sessions_.begin(), sessions_.end(),
                                   [&](const auto& one) { return one.second.device == name; });
  if (is_used)
    size(name, &device->second);
  else
    devices_.erase(device);
}

const GpuShares::Device* GpuShares::device_of(SessionId id) const {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : &devices_.at(found->second.device);
}

GpuShares::Device* GpuShares::device_of(SessionId id) {
  return const_cast<Device*>(std::as_const(*this).device_of(id));
}

void GpuShares::observe(SessionId id, const Demand& demand) {
  Device* const device = device_of(id);
  if (device == nullptr) return;
  sessions_.at(id).held_bytes = demand.resident_bytes;
  device->arbiter.observe(id, demand);
}

std::vector<Change> GpuShares::rebalance() {
  std::vector<Change> all;
  for (auto& [name, device] : devices_) {
    const std::vector<Change> changes = device.arbiter.rebalance();
    all.insert(all.end(), changes.begin(), changes.end());
  }
  return all;
}

std::vector<SessionId> GpuShares::end_round() {
  std::vector<SessionId> late;
  for (auto& [name, device] : devices_) {
    const std::vector<SessionId> here = device.arbiter.end_round();
    late.insert(late.end(), here.begin(), here.end());
  }
  return late;
}

bool GpuShares::is_waited_for(SessionId id) const {
  const Device* const device = device_of(id);
  return device != nullptr && device->arbiter.is_waited_for(id);
}

std::optional<Refusal> GpuShares::set_job_limit(const JobKey& job, const JobLimit& limit) {
  if (limit.bytes < Arbiter::minimum_bytes)
    return Refusal{EINVAL, Arbiter::minimum_bytes,
                   fmt::format("{} of GPU memory is too little to work with; ask for at least {}",
                               format_size(limit.bytes), format_size(Arbiter::minimum_bytes))};
  if (auto refusal = users_.set_job_limit(job, limit)) return refusal;
  for (auto& [name, device] : devices_) divide(&device);
  return std::nullopt;
}

void GpuShares::forget_job(const JobKey& job) {
  if (users_.job_limit(job).bytes == no_limit) return;
  users_.forget_job(job);
  for (auto& [name, device] : devices_) divide(&device);
}

bool GpuShares::set_job_weight(const JobKey& job, std::uint64_t weight) {
  bool is_there = false;
  for (auto& [name, device] : devices_) is_there = !device.arbiter.set_job_weight(job, weight) || is_there;
  return is_there;
}

std::uint64_t GpuShares::granted_bytes(SessionId id) const {
  const Device* const device = device_of(id);
  return device == nullptr ? 0 : device->arbiter.granted_bytes(id);
}

std::uint64_t GpuShares::job_budget_bytes(const std::string& name, const JobKey& job) const {
  const auto device = devices_.find(name);
  return device == devices_.end() ? 0 : device->second.arbiter.job_budget_bytes(job);
}

const UserShares* GpuShares::users_on(const std::string& name) const {
  const auto device = devices_.find(name);
  return device == devices_.end() ? nullptr : &device->second.arbiter.users();
}

std::map<std::string, GpuView> GpuShares::devices() const {
  std::map<std::string, GpuView> views;
  for (const auto& [name, device] : devices_)
    views[name] = {device.bytes, device.arbiter.machine_bytes(), 0, 0, 0};
  for (const auto& [id, session] : sessions_) {
    GpuView& view = views.at(session.device);
    view.granted_bytes += granted_bytes(id);
    view.reported_bytes += session.held_bytes;
    ++view.sessions;
  }
  return views;
}

}  // namespace terrace::daemon
