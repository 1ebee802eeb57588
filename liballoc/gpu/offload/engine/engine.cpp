#include "liballoc/gpu/offload/engine/engine.h"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>

#include "liballoc/base/os.h"

namespace terrace::liballoc::offload {
namespace {

// A sum runs at the speed of one core's memory, a link at several times that: more cores help where there are
// many.
unsigned crew_threads() { return std::clamp(std::thread::hardware_concurrency() / 8, 1U, 4U); }

void add_plan(const StepPlanner::Counts& plan, terrace_offload_statistics* counts) {
  counts->plan_in_force = static_cast<std::uint64_t>(plan.is_in_force);
  counts->plans_made = plan.plans;
  counts->planned_steps = plan.planned_steps;
  counts->plan_departures = plan.departures;
  counts->plan_refusals = plan.refusals;
  counts->plan_predicted_ns = plan.predicted_step_ns;
  counts->plan_step_ns = plan.planned_step_ns;
  counts->heuristic_step_ns = plan.heuristic_step_ns;
  counts->plan_wait_ns = plan.planned_wait_ns;
  counts->heuristic_wait_ns = plan.heuristic_wait_ns;
}

}  // namespace

int Engine::open(const Settings& settings, std::unique_ptr<Engine>* out, std::string* reason) {
  std::unique_ptr<Engine> engine(new Engine);
  if (const int error = engine->open_parts(settings, reason); error != 0) return error;
  *out = std::move(engine);
  return 0;
}

int Engine::open_parts(const Settings& settings, std::string* reason) {
  if (const int error = open_device(settings, reason); error != 0) return error;
  if (const int error = open_session(settings, reason); error != 0) return error;
  if (settings.sums_everything) proofs_.sum_everything();
  tiers::gpu::Device* device = on_host() ? nullptr : &link_->device();
  if (const int error = slab_.open(settings.dram_bytes, device, reason); error != 0) return error;
  if (const int error = open_codec(settings, reason); error != 0) return error;
  try {
    if (const int error = open_drive(settings, reason); error != 0) return error;
    try_direct(settings);
    open_planner(settings);
    start_crews();
    start_keeper();
    start_session();
  } catch (const std::system_error&) {
    *reason = "no thread could be started: raise the limit of ulimit -u";
    return EAGAIN;
  }
  return 0;
}

int Engine::open_device(const Settings& settings, std::string* reason) {
  path_ = "copies by the host's threads";
  if (!settings.device) return 0;
  std::unique_ptr<tiers::gpu::Device> device;
  if (const int error = tiers::gpu::open_device(*settings.device, &device, reason); error != 0) return error;
  path_ = "pinned bounce buffers on " + std::string(device->name());
  auto link = std::make_unique<DeviceLink>();
  if (const int error = link->open(std::move(device), reason); error != 0) return error;
  link_ = std::move(link);
  return 0;
}

// "auto" is a codec where one pays and runs.
int Engine::open_codec(const Settings& settings, std::string* reason) {
  if (settings.compress == Compress::off) return 0;
  if (on_host()) {
    codec_ = std::make_unique<HostCodec>(settings.compress, settings.codec);
    return 0;
  }
  auto codec = std::make_unique<DeviceCodec>();
  const int error = codec->open(link_.get(), &slab_, settings, reason);
  if (error == ENOTSUP && settings.compress == Compress::automatic) {
    path_ += ", uncompressed";
    return 0;
  }
  if (error == 0) device_codec_ = std::move(codec);
  return error;
}

// A ledger that cannot be kept is no reason to do without a drive, unless it is to be obeyed or was damaged;
// but the next job's budget will not know of this one's writes, so it is said.
int Engine::open_drive(const Settings& settings, std::string* reason) {
  if (settings.nvme_bytes == 0) return 0;
  if (session_.forbids_files() && !settings.names_directory) return 0;  // the warning says so
  auto drive = std::make_unique<Drive>();
  const auto done = [this](const Drive::Job& job, int error) { drive_done(job, error); };
  const auto begin = [this] { begin_thread(); };
  Drive::Granted granted;
  if (session_.has_pool()) granted = {session_.grant()->pool_fd, session_.grant()->pool_capacity_bytes};
  if (const int error = drive->open(settings, granted, begin, done, reason); error != 0) return error;
  const bool must_count = settings.writes_per_day_bytes != 0 || settings.writes_total_bytes != 0;
  if (session_.has_pool()) writes_.use_lease();
  const int error = writes_.is_leased()
                        ? 0
                        : writes_.open_ledger(settings.nvme_directory, settings.writes_per_day_bytes,
                                              settings.writes_total_bytes, reason);
  if (error != 0 && (must_count || error == EBADMSG)) return error;
  if (error != 0) {
    if (!warning_.empty()) warning_ += "; ";
    warning_ += "what this job writes to the drive is not counted: " + *reason;
  }
  read_ahead_limit_bytes_ = settings.read_ahead_bytes;
  path_ += std::string(" and ") + drive->io() + (writes_.is_leased() ? " in the daemon's pool" : "");
  drive_ = std::move(drive);
  return 0;
}

// Not for CPU tensors, whose copies are the processors' work, nor for a GPU: what the host's clock says of a
// step is not when the GPU does it.
void Engine::open_planner(const Settings& settings) {
  policy_ = settings.policy;
  if (policy_ == "heuristic" || on_host() || link_->device().kind() == tiers::gpu::Kind::cuda) return;
  const std::uint64_t nvme_bytes = drive_ == nullptr ? 0 : drive_->free_bytes();
  planner_ =
      std::make_unique<StepPlanner>(policy_, settings.judges_plans, slab_.capacity_bytes(), nvme_bytes);
}

std::string Engine::plan_text() const {
  if (planner_ != nullptr) return planner_->text();
  if (policy_ == "heuristic") return policy_;
  return on_host() ? "heuristic: steps on CPU tensors are not planned"
                   : "heuristic: steps of a CUDA device are not planned yet, as its own times are not read";
}

StepRecorder::Moment Engine::moment() {
  const Lock lock(mutex_);
  return {os::now_ns(), counts_.host_wait_ns};
}

// The program may be capturing a graph while the engine's threads ask for events and page-lock memory.
void Engine::begin_thread() {
  if (!on_host()) link_->device().relax_stream_capture();
}

void Engine::start_crews() {
  const auto begin = [this] { begin_thread(); };
  out_crew_.start(crew_threads(), begin, [this](const TensorPtr& tensor) {
    Lock lock(mutex_);
    finish_store(tensor, lock);
  });
  in_crew_.start(crew_threads(), begin, [this](const TensorPtr& tensor) { bring_in(tensor); });
  if (device_codec_ == nullptr) return;
  frame_crew_.start(crew_threads(), begin, [this](const TensorPtr& tensor) { make_frame(tensor); });
  verdict_crew_.start(1, begin, [this](const TensorPtr& tensor) { judge(tensor); });
}

Engine::~Engine() {
  session_.stop();
  end_step();
  keeper_.stop();
  frame_crew_.stop();
  out_crew_.stop();
  in_crew_.stop();
  verdict_crew_.stop();
  if (drive_ != nullptr) drive_->stop();
  for (const Retired& retired : retired_) {
    link_->device().synchronize(retired.event);
    link_->give_event(retired.event);
  }
}

TensorPtr Engine::find(std::uint64_t id) const {
  const auto found = live_.find(id);
  return found == live_.end() ? nullptr : found->second;
}

terrace_offload_statistics Engine::statistics() {
  const Lock lock(mutex_);
  terrace_offload_statistics counts = counts_;
  counts.size = sizeof(counts);
  counts.live = live_.size();
  counts.waiting_bytes = waiting_bytes_;
  counts.summed_bytes = proofs_.summed_bytes();
  counts.dram_bytes = slab_.committed_bytes();
  counts.dram_peak_bytes = slab_.committed_peak_bytes();
  counts.dram_limit_bytes = slab_.limit_bytes();
  counts.writes_today_bytes = writes_.today_bytes();
  counts.writes_total_bytes = writes_.total_bytes();
  if (drive_ != nullptr) counts.nvme_bytes = drive_->used_bytes();
  for (const auto& [id, tensor] : live_)
    if (tensor->memory.bytes != 0) counts.dram_content_bytes += tensor->stored_bytes;
  if (planner_ != nullptr) add_plan(planner_->counts(), &counts);
  return counts;
}

}  // namespace terrace::liballoc::offload
