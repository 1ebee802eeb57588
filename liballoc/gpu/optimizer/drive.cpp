#include "liballoc/gpu/optimizer/drive.h"

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "liballoc/base/os.h"
#include "tiers/pool_file.h"

namespace terrace::liballoc::optimizer {

int Drive::open_pool(const terrace_optimizer_config& config, const char* directory, std::string* reason) {
  int fd = -1;
  int error = tiers::open_pool_file(directory, &fd);
  if (error == 0) {
    error = nvme_.open(fd, {.capacity_bytes = config.nvme_bytes,
                            .grow_step_bytes = std::uint64_t{256} << 20,
                            .queue_depth = most_in_flight});
    if (error != 0) ::close(fd);
  }
  if (error != 0)
    *reason = "no pool file of " + std::to_string(config.nvme_bytes) + " bytes in " + directory + ": " +
              std::strerror(error) +
              "; nvme_bytes is 64 KiB to 4 TiB, nvme_directory one on the drive to use";
  return error;
}

int Drive::open(const terrace_optimizer_config& config, std::string* reason) {
  directory_ = config.nvme_directory != nullptr ? config.nvme_directory : "/var/tmp";
  if (const int error = open_pool(config, directory_.c_str(), reason); error != 0) return error;
  const char* const fault = config.fault != nullptr ? config.fault : "";
  tier_ = faults_.wrap(&nvme_, fault);
  if (tier_ == nullptr) {
    *reason =
        std::string("fault is '") + fault + "': say for example write:3:ENOSPC, read:5:EIO or corrupt:2";
    return EINVAL;
  }
  const bool must_count = config.writes_per_day_bytes != 0 || config.writes_total_bytes != 0;
  const int error = ledger_.open(directory_, config.writes_per_day_bytes, config.writes_total_bytes, reason);
  if (error != 0 && (must_count || error == EBADMSG)) return error;
  if (error != 0) warning_ = "what this optimizer writes to the drive is not counted: " + *reason;
  return 0;
}

std::string Drive::path() const {
  return "on NVMe in " + directory_ + " by " + tier_->io() +
         (nvme_.direct() ? ", O_DIRECT" : ", through the page cache");
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
  if (const int error = ledger_.take(block.bytes()); error != 0) return error;
  const int error = submit(block, tiers::Direction::write, memory, token);
  if (error != 0)
    ledger_.untake(block.bytes());
  else
    written_bytes_ += block.bytes();
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
  out->nvme_bytes = tier_->space().used_bytes;
  out->nvme_read_bytes = read_bytes_;
  out->nvme_written_bytes = written_bytes_;
  out->drive_wait_ns = wait_ns_;
  out->io_errors = errors_;
  out->writes_today_bytes = ledger_.today_bytes();
  out->writes_total_bytes = ledger_.total_bytes();
}

}  // namespace terrace::liballoc::optimizer
