#include "liballoc/gpu/offload/room/drive_room.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace terrace::liballoc::offload {

int DriveRoom::open(const Settings& settings, const EngineSession& session, Drive::Done done,
                    std::string* reason, std::string* warning) {
  if (settings.nvme_bytes == 0) return 0;
  if (session.forbids_files() && !settings.names_directory) return 0;  // the warning says so
  auto drive = std::make_unique<Drive>();
  Drive::Granted granted;
  if (session.has_pool()) granted = {session.grant()->pool_fd, session.grant()->pool_capacity_bytes};
  const auto begin = [this] { common_->begin_thread(); };
  if (const int error = drive->open(settings, granted, begin, std::move(done), reason); error != 0)
    return error;
  if (session.has_pool())
    writes_.use_lease();
  else if (const int error = open_ledger(settings, reason, warning); error != 0)
    return error;
  drive_ = std::move(drive);
  return 0;
}

int DriveRoom::open_ledger(const Settings& settings, std::string* reason, std::string* warning) {
  const int error = writes_.open_ledger(settings.nvme_directory, settings.writes_per_day_bytes,
                                        settings.writes_total_bytes, reason);
  const bool must_count = settings.writes_per_day_bytes != 0 || settings.writes_total_bytes != 0;
  if (error == 0 || must_count || error == EBADMSG) return error;
  if (!warning->empty()) *warning += "; ";
  *warning += "what this job writes to the drive is not counted: " + *reason;
  return 0;
}

void DriveRoom::stop() {
  if (is_open()) drive_->stop();
}

std::string DriveRoom::path() const {
  if (!is_open()) return "";
  return std::string(" and ") + drive_->io() + (writes_.is_leased() ? " in the daemon's pool" : "");
}

// A file of its own is no part of what the daemon grants.
void DriveRoom::obey(const Grant& grant) {
  if (!writes_.is_leased()) return;
  drive_->set_limit(grant.pool_limit_bytes);
  writes_.set_lease(grant.most_written_bytes);
}

int DriveRoom::may_take(std::uint64_t bytes) {
  if (error_ != 0) return error_;
  if (drive_->free_bytes() < bytes) return ENOSPC;
  if (const int error = writes_.take(bytes); error != 0) return error;
  writes_.untake(bytes);
  return 0;
}

int DriveRoom::reserve(Tensor& tensor, std::uint64_t bytes) {
  if (error_ != 0) return error_;
  if (const int error = charge(tensor, whole_blocks(bytes)); error != 0) return error;
  if (const int error = drive_->reserve(bytes, &tensor.disk); error != 0) {
    charge(tensor, 0);
    return error;
  }
  common_->counts.nvme_peak_bytes = std::max(common_->counts.nvme_peak_bytes, drive_->used_bytes());
  return 0;
}

// What was charged and never written is given back as well.
void DriveRoom::release(Tensor& tensor) {
  charge(tensor, 0);
  if (tensor.disk.bytes != 0) drive_->release(std::exchange(tensor.disk, {}));
}

int DriveRoom::charge(Tensor& tensor, std::uint64_t bytes) {
  if (bytes > tensor.charged_bytes) {
    if (const int error = writes_.take(bytes - tensor.charged_bytes); error != 0) return error;
  } else {
    writes_.untake(tensor.charged_bytes - bytes);
  }
  tensor.charged_bytes = bytes;
  return 0;
}

void DriveRoom::was_submitted(Tensor& tensor, std::uint64_t bytes) {
  const std::uint64_t charged = std::min(bytes, tensor.charged_bytes);
  tensor.charged_bytes -= charged;
  writes_.submitted(charged);
}

void DriveRoom::ended(const Drive::Job& job, int error) {
  terrace_offload_statistics& counts = common_->counts;
  const bool out = job.direction == tiers::Direction::write;
  job.tensor->drive = Tensor::Drive::idle;
  if (error != 0)
    ++counts.io_errors;
  else
    (out ? counts.nvme_written_bytes : counts.nvme_read_bytes) += job.extent.bytes;
  if (out) was_submitted(*job.tensor, job.submitted_bytes);
  if (out && error != 0) error_ = error;
}

void DriveRoom::end_step() {
  if (error_ == ENOSPC) error_ = 0;
}

}  // namespace terrace::liballoc::offload
