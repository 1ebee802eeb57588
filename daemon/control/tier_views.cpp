// See tier_views.h.
#include "daemon/control/tier_views.h"

#include <fmt/format.h>

#include <set>
#include <string>
#include <utility>

namespace terrace::daemon {
namespace {

using nlohmann::json;

// What is said of the job of a resource, under the names of the keys in terraced.toml, and while it runs.
void put_bounds(json& object, const char* resource, const UserShares& users, const JobKey& job) {
  const JobShare share = users.jobs().of(job);
  if (share.guarantee_bytes != 0) object[fmt::format("{}_guarantee_bytes", resource)] = share.guarantee_bytes;
  if (const auto limit = users.said_limit(job)) object[fmt::format("{}_limit_bytes", resource)] = *limit;
}

void put_pool(json& object, const Pools& pools, const JobKey& job) {
  if (const std::uint64_t bytes = pools.promised_bytes(job); bytes != 0)
    object["pool_promised_bytes"] = bytes;
  put_bounds(object, "pool", pools.users(), job);
}

json view_gpu_heap(const ControlContext& context, const Session& session) {
  json object{{"id", session.id()},
              {"pid", session.peer().pid},
              {"gpu", session.gpu},
              {"reattached", session.reattached},
              {"granted_bytes", context.registry.gpu().granted_bytes(session.id())},
              {"held_bytes", session.counter(wire::Stat::resident_bytes)},
              {"obeyed_bytes", session.counter(wire::Stat::budget_bytes)},
              {"wanted_bytes", session.counter(wire::Stat::heap_live_bytes)},
              {"allocated_bytes", session.counter(wire::Stat::heap_peak_bytes)}};
  if (const std::uint64_t bytes = session.counter(wire::Stat::stored_bytes); bytes != 0)
    object["evicted_bytes"] = bytes;
  const std::uint64_t heartbeat_ns = session.counter(wire::Stat::heartbeat_ns);
  if (heartbeat_ns != 0 && heartbeat_ns <= context.now_ns)
    object["heartbeat_age_seconds"] = static_cast<double>(context.now_ns - heartbeat_ns) / 1e9;
  return object;
}

// Of a job with heaps on GPUs: what it holds and is granted on all of them, what it is due, and each heap.
void put_gpus(json& object, const ControlContext& context, const JobKey& job,
              const std::vector<const Session*>& processes) {
  const GpuShares& gpu = context.registry.gpu();
  json heaps = json::array();
  std::set<std::string> devices;
  std::uint64_t granted = 0, held = 0, due = 0;
  for (const Session* session : processes) {
    if (!session->is_gpu_heap()) continue;
    if (devices.insert(session->gpu).second) due += gpu.job_budget_bytes(session->gpu, job);
    granted += gpu.granted_bytes(session->id());
    held += session->counter(wire::Stat::resident_bytes);
    heaps.push_back(view_gpu_heap(context, *session));
  }
  if (heaps.empty()) return;
  object["gpu_budget_bytes"] = due;
  object["gpu_granted_bytes"] = granted;
  object["gpu_held_bytes"] = held;
  if (devices.size() == 1) put_bounds(object, "gpu", *gpu.users_on(*devices.begin()), job);
  object["gpu_heaps"] = std::move(heaps);
}

}  // namespace

void put_tiers(json& object, const ControlContext& context, const JobKey& job,
               const std::vector<const Session*>& processes) {
  put_pool(object, context.registry.pools(), job);
  put_bounds(object, "writes", context.registry.writes().users(), job);
  put_gpus(object, context, job, processes);
}

void add_gpus(json& tiers, const GpuShares& gpu) {
  for (const auto& [name, device] : gpu.devices())
    tiers.push_back({{"tier", "gpu"},
                     {"device", name},
                     {"capacity_bytes", device.budget_bytes},
                     {"device_bytes", device.device_bytes},
                     {"granted_bytes", device.granted_bytes},
                     {"used_bytes", device.reported_bytes},
                     {"heaps", device.sessions}});
}

}  // namespace terrace::daemon
