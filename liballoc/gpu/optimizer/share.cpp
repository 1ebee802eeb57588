#include "liballoc/gpu/optimizer/share.h"

#include <utility>

namespace terrace::liballoc::optimizer {
namespace {

// An endurance budget of the user's own is counted in the user's record, and a directory that was named has
// the file. Without a drive of its own an optimizer wants one all the same, for what DRAM has no room for.
bool wants_granted_pool(const terrace_optimizer_config& config) {
  const bool has_budget = config.writes_per_day_bytes != 0 || config.writes_total_bytes != 0;
  return !has_budget && (config.nvme_bytes == 0 || config.nvme_directory == nullptr);
}

}  // namespace

int Share::open(const terrace_optimizer_config& config, std::string* reason) {
  gpu::SessionOptions options;
  if (const int error = gpu::read_session_options(&options, reason); error != 0) return error;
  const bool may_keep_a_file = config.nvme_bytes != 0 && config.nvme_directory == nullptr;
  const offload::Joining joining{.device = "optimizer",
                                 .who = "optimizer",
                                 .wants_pool = wants_granted_pool(config),
                                 .may_keep_a_file = may_keep_a_file};
  if (const int error = session_.open(options, joining, reason); error != 0) return error;
  forbids_drive_ = may_keep_a_file && session_.forbids_files();
  return 0;
}

Drive::Granted Share::pool() const {
  if (!session_.has_pool()) return {};
  return {session_.grant()->pool_fd, session_.grant()->pool_capacity_bytes};
}

void Share::start(Drive* drive, std::function<offload::Report()> report, std::function<void()> settle) {
  drive_ = drive;
  if (session_.grant() != nullptr) take_grant(*session_.grant());
  session_.start({.report =
                      [report = std::move(report), settle = std::move(settle)] {
                        settle();
                        return report();
                      },
                  .take_grant = [this](const Grant& grant) { take_grant(grant); },
                  .trim = [this] { is_to_trim_ = true; }});
}

void Share::take_grant(const Grant& grant) {
  if (drive_ != nullptr && session_.has_pool())
    drive_->set_limits(grant.pool_limit_bytes, grant.most_written_bytes);
  limit_bytes_ = grant.budget_bytes;
  has_grant_ = true;
  ++grants_;
}

}  // namespace terrace::liballoc::optimizer
