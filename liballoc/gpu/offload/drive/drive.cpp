#include "liballoc/gpu/offload/drive/drive.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "liballoc/base/os.h"
#include "liballoc/gpu/offload/codec/stored_sum.h"
#include "tiers/extent_allocator.h"
#include "tiers/gpu/start_without_signals.h"
#include "tiers/pool_file.h"

namespace terrace::liballoc::offload {
namespace {

constexpr std::size_t jobs_at_once = 4;

}  // namespace

int Drive::open_tier(const Settings& settings, const Granted& granted, std::string* reason) {
  const bool is_granted = granted.fd >= 0;
  const std::uint64_t bytes =
      is_granted ? std::min(settings.nvme_bytes, granted.capacity_bytes) : settings.nvme_bytes;
  int fd = is_granted ? ::fcntl(granted.fd, F_DUPFD_CLOEXEC, 3) : -1;
  int error = is_granted ? (fd < 0 ? errno : 0) : tiers::open_pool_file(settings.nvme_directory.c_str(), &fd);
  if (error == 0) {
    error = nvme_.open(fd, {.capacity_bytes = bytes, .grow_step_bytes = std::uint64_t{256} << 20});
    if (error != 0) ::close(fd);
  }
  if (error != 0) {
    *reason = "no pool file of " + std::to_string(bytes) + " bytes in " +
              (is_granted ? "the daemon's pool" : settings.nvme_directory) + ": " + std::strerror(error) +
              "; nvme_bytes is 64 KiB to 4 TiB, nvme_directory one on the drive to use";
    return error;
  }
  if (tiers::Tier* const tier = faults_.wrap(&nvme_, settings.fault.c_str())) {
    tier_ = &meter_.emplace(*tier);
    return 0;
  }
  *reason = "fault is '" + settings.fault + "': say for example write:3:ENOSPC, read:5:EIO or corrupt:2";
  return EINVAL;
}

int Drive::open(const Settings& settings, const Granted& granted, const std::function<void()>& begin,
                Done done, std::string* reason) {
  if (const int error = open_tier(settings, granted, reason); error != 0) return error;
  wake_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd_ < 0) {
    *reason = std::string("no eventfd: ") + std::strerror(errno);
    return errno;
  }
  done_ = std::move(done);
  thread_ = tiers::gpu::start_without_signals([this, begin] {
    begin();
    serve();
  });
  return 0;
}

void Drive::stop() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    ::eventfd_write(wake_fd_, 1);
    thread_.join();
  }
  if (wake_fd_ >= 0) ::close(std::exchange(wake_fd_, -1));
}

void Drive::shrink(tiers::Extent* extent, std::uint64_t bytes) {
  constexpr std::uint64_t unit = tiers::ExtentAllocator::unit_bytes;
  const std::uint64_t kept = (bytes + unit - 1) / unit * unit;
  if (kept < extent->bytes) tier_->release({extent->offset + kept, extent->bytes - kept});
  extent->bytes = whole_blocks(bytes);
}

void Drive::queue(const Job& job) {
  {
    const std::lock_guard lock(mutex_);
    (job.urgent ? urgent_ : job.direction == tiers::Direction::read ? reads_ : writes_).push_back(job);
  }
  ::eventfd_write(wake_fd_, 1);
}

// The next job, if it may begin: an urgent one overtakes whatever else is under way.
bool Drive::take_next() {
  const std::lock_guard lock(mutex_);
  for (std::deque<Job>* queue : {&urgent_, &reads_, &writes_}) {
    if (queue->empty()) continue;
    const bool urgent = queue == &urgent_;
    if (!urgent && active_.size() >= jobs_at_once) return false;
    Moving moving;
    static_cast<Job&>(moving) = std::move(queue->front());
    moving.begun_ns = os::now_ns();
    queue->pop_front();
    active_.insert(urgent ? active_.begin() : active_.end(), std::move(moving));
    return true;
  }
  return false;
}

// Piece by piece, so that the drive is at work meanwhile. A piece that the tier refused is not summed twice.
void Drive::sum_up_to(Moving& job, std::uint64_t end) {
  static_assert(piece_bytes % sum_piece_bytes == 0, "the sum of pieces is that of the whole");
  end = std::min(end, job.summed_bytes);
  if (job.sum_at >= end) return;
  job.sum = stored_sum(job.memory + job.sum_at, end - job.sum_at, job.sum);
  job.sum_at = end;
}

// False: the tier takes no more until something has completed.
bool Drive::submit_piece(Moving& job) {
  const std::uint64_t bytes = std::min(piece_bytes, job.extent.bytes - job.submitted_bytes);
  sum_up_to(job, job.submitted_bytes + bytes);
  const tiers::Transfer transfer{.direction = job.direction,
                                 .extent = {job.extent.offset + job.submitted_bytes, bytes},
                                 .buffer = job.memory + job.submitted_bytes,
                                 .token = reinterpret_cast<std::uint64_t>(&job)};
  const int error = tier_->submit(transfer);
  if (error == EAGAIN && tier_->in_flight() > 0) return false;
  if (error != 0) {
    job.error = error;
    return true;
  }
  job.submitted_bytes += bytes;
  ++job.in_flight;
  return true;
}

bool Drive::submit_some() {
  for (Moving& job : active_)
    while (job.error == 0 && job.submitted_bytes < job.extent.bytes)
      if (!submit_piece(job)) return false;
  return true;
}

void Drive::collect() {
  tiers::Completion completions[32];
  for (std::size_t count; (count = tier_->poll(completions)) > 0;) {
    for (std::size_t i = 0; i < count; ++i) {
      auto* job = reinterpret_cast<Moving*>(completions[i].token);
      --job->in_flight;
      if (completions[i].error != 0) job->error = completions[i].error;
    }
  }
}

void Drive::finish_ended() {
  for (auto job = active_.begin(); job != active_.end();) {
    const bool all_in = job->error != 0 || job->submitted_bytes == job->extent.bytes;
    if (!all_in || job->in_flight != 0) {
      ++job;
      continue;
    }
    done_(*job, job->error);
    job = active_.erase(job);
  }
}

// For a completion, if something is under way, or for a new job. A tier without a descriptor has completed
// what it was given.
void Drive::wait() {
  const int device_fd = tier_->wait_fd();
  if (!active_.empty() && (tier_->in_flight() == 0 || device_fd < 0)) return;
  pollfd fds[] = {{wake_fd_, POLLIN, 0}, {device_fd, POLLIN, 0}};
  ::poll(fds, tier_->in_flight() > 0 ? 2 : 1, -1);
  eventfd_t value = 0;
  ::eventfd_read(wake_fd_, &value);
}

void Drive::serve() {
  for (;;) {
    while (take_next()) {
    }
    submit_some();
    collect();
    finish_ended();
    {
      const std::lock_guard lock(mutex_);
      const bool idle = active_.empty() && urgent_.empty() && reads_.empty() && writes_.empty();
      if (idle && ending_) return;
      if (active_.size() < jobs_at_once && (!urgent_.empty() || !reads_.empty() || !writes_.empty()))
        continue;
    }
    wait();
  }
}

}  // namespace terrace::liballoc::offload
