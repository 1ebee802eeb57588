#include "liballoc/gpu/optimizer/drive.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "liballoc/base/os.h"
#include "tiers/extent_allocator.h"
#include "tiers/pool_file.h"

namespace terrace::liballoc::optimizer {

int Drive::open_pool(const terrace_optimizer_config& config, const Granted& granted, std::string* reason) {
  const bool is_granted = granted.fd >= 0;
  const std::uint64_t wanted =
      config.nvme_bytes != 0 ? config.nvme_bytes : tiers::ExtentAllocator::max_capacity_bytes;
  const std::uint64_t bytes = is_granted ? std::min(wanted, granted.capacity_bytes) : wanted;
  int fd = is_granted ? ::fcntl(granted.fd, F_DUPFD_CLOEXEC, 3) : -1;
  int error = is_granted ? (fd < 0 ? errno : 0) : tiers::open_pool_file(directory_.c_str(), &fd);
  if (error == 0) {
    error = nvme_.open(fd, {.capacity_bytes = bytes,
                            .grow_step_bytes = std::uint64_t{256} << 20,
                            .queue_depth = most_in_flight});
    if (error != 0) ::close(fd);
  }
  if (error != 0)
    *reason = "no pool file of " + std::to_string(bytes) + " bytes in " +
              (is_granted ? "the daemon's pool" : directory_) + ": " + std::strerror(error) +
              "; nvme_bytes is 64 KiB to 4 TiB, nvme_directory one on the drive to use";
  return error;
}

// A ledger that cannot be kept is no reason to do without a drive, unless it is to be obeyed or was damaged.
int Drive::open_writes(const terrace_optimizer_config& config, bool is_granted, std::string* reason) {
  if (is_granted) {
    writes_.use_lease();
    return 0;
  }
  const bool must_count = config.writes_per_day_bytes != 0 || config.writes_total_bytes != 0;
  const int error =
      writes_.open_ledger(directory_, config.writes_per_day_bytes, config.writes_total_bytes, reason);
  if (error != 0 && (must_count || error == EBADMSG)) return error;
  if (error != 0) warning_ = "what this optimizer writes to the drive is not counted: " + *reason;
  tell_writes();
  return 0;
}

int Drive::open(const terrace_optimizer_config& config, const Granted& granted, std::string* reason) {
  directory_ = config.nvme_directory != nullptr ? config.nvme_directory : "/var/tmp";
  if (const int error = open_pool(config, granted, reason); error != 0) return error;
  const char* const fault = config.fault != nullptr ? config.fault : "";
  tiers::Tier* const tier = faults_.wrap(&nvme_, fault);
  if (tier == nullptr) {
    *reason =
        std::string("fault is '") + fault + "': say for example write:3:ENOSPC, read:5:EIO or corrupt:2";
    return EINVAL;
  }
  tier_ = &meter_.emplace(*tier);
  return open_writes(config, granted.fd >= 0, reason);
}

std::string Drive::path() const {
  return std::string("on NVMe in ") + (writes_.is_leased() ? "the daemon's pool" : directory_) + " by " +
         tier_->io() + (nvme_.direct() ? ", O_DIRECT" : ", through the page cache");
}

int Drive::reserve(std::uint64_t bytes, tiers::Extent* out) {
  const std::uint64_t most = pool_limit_bytes_;
  if (bytes > most || used_bytes_ > most - bytes) return ENOSPC;
  tier_->set_limit(most);  // or the file would take room ahead that the job's other sessions need
  const int error = tier_->reserve(bytes, out);
  used_bytes_ = tier_->space().used_bytes;
  return error;
}

void Drive::release(const tiers::Extent& extent) {
  if (extent.bytes != 0) tier_->release(extent);
  used_bytes_ = tier_->space().used_bytes;
}

int Drive::charge(std::uint64_t bytes) {
  if (writes_.is_leased()) writes_.set_lease(most_written_bytes_);
  const int error = writes_.take(bytes);
  tell_writes();
  return error;
}

void Drive::tell_writes() {
  today_bytes_ = writes_.today_bytes();
  total_bytes_ = writes_.total_bytes();
}

int Drive::submit(const Block& block, tiers::Direction direction, std::byte* memory, std::uint64_t token) {
  const int error = tier_->submit({.direction = direction,
                                   .extent = {block.extent.offset, block.bytes()},
                                   .buffer = memory,
                                   .token = token});
  if (error != 0) ++errors_;
  return error;
}

int Drive::start_read(const Block& block, std::byte* memory, std::uint64_t token) {
  const int error = submit(block, tiers::Direction::read, memory, token);
  if (error == 0) read_bytes_ += block.bytes();
  return error;
}

int Drive::start_write(const Block& block, std::byte* memory, std::uint64_t token) {
  if (const int error = charge(block.bytes()); error != 0) return error;
  const int error = submit(block, tiers::Direction::write, memory, token);
  if (error != 0) {
    writes_.untake(block.bytes());
  } else {
    writes_.submitted(block.bytes());
    written_bytes_ = writes_.written_bytes();
  }
  tell_writes();
  return error;
}

void Drive::collect(bool wait, const std::function<void(std::uint64_t, int)>& ended) {
  const std::uint64_t begin = wait ? os::now_ns() : 0;
  std::array<tiers::Completion, most_in_flight> completions;
  for (bool waiting = wait;;) {
    const std::size_t count = tier_->poll(completions);
    for (std::size_t i = 0; i < count; ++i) {
      if (completions[i].error != 0) ++errors_;
      ended(completions[i].token, completions[i].error);
    }
    if (count != 0 || !waiting || tier_->in_flight() == 0) break;
    pollfd ready = {tier_->wait_fd(), POLLIN, 0};
    if (ready.fd >= 0) ::poll(&ready, 1, -1);
  }
  if (wait) wait_ns_ += os::now_ns() - begin;
}

void Drive::count(terrace_optimizer_statistics* out) const {
  out->nvme_bytes = used_bytes_;
  out->nvme_read_bytes = read_bytes_;
  out->nvme_written_bytes = written_bytes_;
  out->drive_wait_ns = wait_ns_;
  out->io_errors = errors_;
  out->writes_today_bytes = today_bytes_;
  out->writes_total_bytes = total_bytes_;
}

}  // namespace terrace::liballoc::optimizer
