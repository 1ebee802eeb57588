// See nvm_pool.h.
#include "daemon/pools/nvm_pool.h"

#include <algorithm>
#include <cerrno>

#include "daemon/base/machine.h"
#include "daemon/base/size.h"
#include "daemon/base/unique_fd.h"
#include "liballoc/wire/protocol.h"
#include "tiers/encryption/at_rest.h"
#include "tiers/memory/nvm_file.h"
#include "tiers/memory/nvm_tier.h"

namespace terrace::daemon {

NvmPool::NvmPool(const NvmRule& rule) : rule_(rule), pools_(rule.directory, rule.bytes, false) {
  if (rule_.directory.empty() && rule_.nodes.is_empty()) rule_.nodes = tiers::slow_nodes();
}

std::uint64_t NvmPool::free_bytes() const {
  if (!rule_.directory.empty()) return free_disk_bytes(rule_.directory);
  return minus(tiers::free_bytes(rule_.nodes), tiers::NvmTier::left_on_nodes_bytes);
}

// The directory may have been lost at the start and be back as another one: it is looked at for each file.
int NvmPool::open_file(std::uint64_t bytes) const {
  if (rule_.must_be_encrypted && !rule_.directory.empty() &&
      !encryption::look_at_rest(rule_.directory).is_encrypted())
    return -ENOKEY;
  int fd = -1;
  const int error = rule_.directory.empty() ? tiers::open_nvm_on_nodes(rule_.nodes, bytes, &fd)
                                            : tiers::open_nvm_in_directory(rule_.directory.c_str(), &fd);
  return error == 0 ? fd : -error;
}

// What files of ours take up is free no longer, and part of what was promised.
PoolGrant NvmPool::give(SessionId session, const JobKey& job, std::uint32_t uid, std::uint32_t gid) {
  pools_.set_quota(std::min(rule_.bytes, free_bytes() + pools_.used_bytes()));
  if (const auto refusal = pools_.promise(session, job, wire::any_bytes)) return {refusal->error, -1, 0};
  const std::uint64_t bytes = pools_.capacity_bytes(session);
  const PoolGrant grant = pools_.hand_out(session, open_file(bytes), uid, gid);
  if (grant.error != 0) pools_.leave(session);
  return grant;
}

std::optional<Refusal> NvmPool::adopt(SessionId session, const JobKey& job, const Brought& brought,
                                      const PoolFile& file) {
  const UniqueFd sample(open_file(Pools::least_bytes));
  PoolDisk disk;
  if (auto refusal = Pools::judge(file, look_at_pool_file(sample.get()), job.uid, &disk)) return refusal;
  if (disk.descriptor == nullptr) return std::nullopt;
  pools_.set_quota(std::min(rule_.bytes, free_bytes() + pools_.used_bytes() + disk.bytes));
  const std::uint64_t left = minus(pools_.quota_bytes(), pools_.promised_bytes());
  const std::uint64_t capacity =
      brought.is_on_record ? brought.capacity_bytes : std::min(brought.capacity_bytes, left / 2);
  static_cast<void>(pools_.adopt(session, job, capacity, brought.used_bytes, disk));
  return std::nullopt;
}

void NvmPool::observe(SessionId session, std::uint64_t reported_bytes) {
  pools_.observe(session, reported_bytes);
  static_cast<void>(pools_.measure(session));
}

}  // namespace terrace::daemon
