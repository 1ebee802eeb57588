// How an engine is put together, and what it has to do with the daemon (session/engine_session.h): what that
// grants of the host memory that the engine was opened with, of the pool, and of what may be written to it.
//
// A grant that is lowered takes effect at once for what is not in use: the slab gives none of it to anybody.
// What is in use beyond it is moved out while the program runs: a copy that the drive has as well is dropped,
// what lies in host memory alone is written first. Without a drive it stays until it is released, at the end
// of its step at the latest. Nothing waits for any of it, and what has no room stays where it is, as with a
// full budget.
//
// The window is what brings tensors back (room/window.h). It is moved, and where the grant is too small for
// it, as that of a job which is to be paused, its memory is given back until a tensor needs it
// (memory/held_extent.h).
#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>

#include "liballoc/gpu/offload/engine/engine.h"

namespace terrace::liballoc::offload {
namespace {

// A sum runs at the speed of one core's memory, a link at several times that: more cores help where there are
// many.
unsigned crew_threads() { return std::clamp(std::thread::hardware_concurrency() / 8, 1U, 4U); }

}  // namespace

Engine::Engine() {
  common_.stir = [this] { stir(); };
}

Engine::~Engine() {
  session_.stop();
  end_step();
  host_.stop();
  common_.executor.stop();
  drive_.stop();
}

int Engine::open(const Settings& settings, std::unique_ptr<Engine>* out, std::string* reason) {
  std::unique_ptr<Engine> engine(new Engine);
  if (const int error = engine->open_parts(settings, reason); error != 0) return error;
  *out = std::move(engine);
  return 0;
}

int Engine::open_parts(const Settings& settings, std::string* reason) {
  if (const int error = open_device(settings, reason); error != 0) return error;
  if (const int error = open_session(settings, reason); error != 0) return error;
  if (settings.sums_everything) common_.proofs.sum_everything();
  if (const int error = host_.open(settings.dram_bytes, settings.read_ahead_bytes, reason); error != 0)
    return error;
  if (const int error = open_codec(settings, reason); error != 0) return error;
  try {
    if (const int error = open_drive(settings, reason); error != 0) return error;
    open_planner(settings);
    start_crews();
    host_.start([this] { return stores_.wanted_growth(); });
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
  common_.link = std::move(link);
  return 0;
}

// Alone, the engine has what it was opened with.
int Engine::open_session(const Settings& settings, std::string* reason) {
  const Joining joining{.device = settings.device_text,
                        .wants_pool = settings.wants_granted_pool(),
                        .may_keep_a_file = settings.nvme_bytes != 0 && !settings.names_directory};
  if (const int error = session_.open(settings.session, joining, reason); error != 0) return error;
  warning_ = session_.warning();
  return 0;
}

// "auto" is a codec where one pays and runs.
int Engine::open_codec(const Settings& settings, std::string* reason) {
  if (settings.compress == Compress::off) return 0;
  if (common_.on_host()) {
    copies_.open(settings);
    return 0;
  }
  const int error = frames_.open(settings, reason);
  if (error != ENOTSUP || settings.compress != Compress::automatic) return error;
  path_ += ", uncompressed";
  return 0;
}

int Engine::open_drive(const Settings& settings, std::string* reason) {
  const auto done = [this](const Drive::Job& job, int error) { drive_done(job, error); };
  if (const int error = drive_.open(settings, session_, done, reason, &warning_); error != 0) return error;
  if (!drive_.is_open()) return 0;
  copies_.sum_for_drive();
  path_ += drive_.path() + frames_.open_direct(settings);
  return 0;
}

// Not for CPU tensors, whose copies are the processors' work, nor for a GPU: what the host's clock says of a
// step is not when the GPU does it.
void Engine::open_planner(const Settings& settings) {
  policy_ = settings.policy;
  if (policy_ == "heuristic" || common_.on_host() || common_.is_cuda()) return;
  common_.planner = std::make_unique<StepPlanner>(policy_, settings.judges_plans,
                                                  host_.slab().capacity_bytes(), drive_.free_bytes());
}

void Engine::start_crews() {
  const auto start = [this](Stage stage, unsigned threads, Executor::Work work) {
    common_.executor.start(
        stage, threads, [this] { common_.begin_thread(); }, std::move(work));
  };
  start(Stage::out, crew_threads(), [this](const TensorPtr& tensor) {
    Lock lock(common_.mutex);
    stores_.finish(tensor, lock);
  });
  start(Stage::in, crew_threads(), [this](const TensorPtr& tensor) {
    Lock lock(common_.mutex);
    fetches_.bring_in(tensor, lock);
  });
  if (!frames_.is_open()) return;
  start(Stage::frame, crew_threads(), [this](const TensorPtr& tensor) { frames_.make(tensor); });
  start(Stage::verdict, 1, [this](const TensorPtr& tensor) { frames_.judge(tensor); });
}

void Engine::start_session() {
  if (session_.grant() != nullptr) take_grant(*session_.grant());
  session_.start({.report = [this] { return report(); },
                  .take_grant = [this](const Grant& grant) { take_grant(grant); },
                  .trim = [this] { trim(); }});
}

// What the device has passed meanwhile is seen here where nobody else looks, and that no grant has come.
Report Engine::report() {
  const Lock lock(common_.mutex);
  const Slab& slab = host_.slab();
  if (slab.is_over_limit() || host_.awaited_bytes() != 0) stir();
  return {.memory_bytes = slab.committed_bytes(),
          .memory_peak_bytes = slab.committed_peak_bytes(),
          .spare_memory_bytes = slab.spare_bytes(),
          .wanted_memory_bytes = host_.demand().bytes(slab.committed_bytes(), slab.capacity_bytes()),
          .memory_limit_bytes = slab.limit_bytes(),
          .drive_bytes = drive_.used_bytes(),
          .drive_written_bytes = drive_.writes().written_bytes(),
          .drive_read_bytes = common_.counts.nvme_read_bytes,
          .drive_speeds = drive_.speeds(),
          .checksum_failures = common_.counts.checksum_failures,
          .io_errors = common_.counts.io_errors};
}

void Engine::take_grant(const Grant& grant) {
  const Lock lock(common_.mutex);
  const std::uint64_t limit_bytes = host_.slab().limit_bytes();
  host_.slab().set_limit(grant.budget_bytes);
  if (host_.slab().limit_bytes() > limit_bytes) host_.demand().was_granted_more();
  host_.window().held().come_back();
  drive_.obey(grant);
  common_.changed.notify_all();
  stir();
}

// `terrace trim`: also what the next step would take again.
void Engine::trim() {
  const Lock lock(common_.mutex);
  host_.trim();
  frames_.trim();
}

}  // namespace terrace::liballoc::offload
