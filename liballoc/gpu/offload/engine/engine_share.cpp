// What the daemon grants (session/engine_session.h): of the host memory that the engine was opened with, of
// the pool, and of what may be written to it.
//
// A grant that is lowered takes effect at once for what is not in use: the slab gives none of it to anybody.
// What is in use beyond it is moved out while the program runs: a copy that the drive has as well is dropped,
// what lies in host memory alone is written first. Without a drive it stays until it is released, at the end
// of its step at the latest. Nothing waits for any of it, and what has no room stays where it is, as with a
// full budget.
//
// The window is what brings tensors back (engine_window.cpp). It is moved, and where the grant is too small
// for it, as that of a job which is to be paused, its memory is given back until a tensor needs it
// (memory/held_extent.h).
#include <utility>

#include "liballoc/gpu/offload/engine/engine.h"

namespace terrace::liballoc::offload {

// Alone, the engine has what it was opened with.
int Engine::open_session(const Settings& settings, std::string* reason) {
  const Joining joining{.device = settings.device_text,
                        .wants_pool = settings.wants_granted_pool(),
                        .may_keep_a_file = settings.nvme_bytes != 0 && !settings.names_directory};
  if (const int error = session_.open(settings.session, joining, reason); error != 0) return error;
  warning_ = session_.warning();
  return 0;
}

void Engine::start_session() {
  if (session_.grant() != nullptr) take_grant(*session_.grant());
  session_.start({.report = [this] { return report(); },
                  .take_grant = [this](const Grant& grant) { take_grant(grant); },
                  .trim = [this] { trim(); }});
}

// What the device has passed meanwhile is seen here where nobody else looks.
Report Engine::report() {
  const Lock lock(mutex_);
  if (slab_.is_over_limit()) pump();
  return {.memory_bytes = slab_.committed_bytes(),
          .memory_peak_bytes = slab_.committed_peak_bytes(),
          .spare_memory_bytes = slab_.spare_bytes(),
          .wanted_memory_bytes = demand_.bytes(slab_.committed_bytes(), slab_.capacity_bytes()),
          .memory_limit_bytes = slab_.limit_bytes(),
          .drive_bytes = drive_ == nullptr ? 0 : drive_->used_bytes(),
          .drive_written_bytes = writes_.written_bytes(),
          .drive_read_bytes = counts_.nvme_read_bytes,
          .drive_speeds = drive_ == nullptr ? tiers::TierSpeeds{} : drive_->speeds(),
          .checksum_failures = counts_.checksum_failures,
          .io_errors = counts_.io_errors};
}

// A file of its own is no part of what the daemon grants.
void Engine::take_grant(const Grant& grant) {
  const Lock lock(mutex_);
  slab_.set_limit(grant.budget_bytes);
  window_.come_back();
  if (writes_.is_leased()) {
    drive_->set_limit(grant.pool_limit_bytes);
    writes_.set_lease(grant.most_written_bytes);
  }
  changed_.notify_all();
  pump();
}

// `terrace trim`: also what the next step would take again.
void Engine::trim() {
  const Lock lock(mutex_);
  collect_retired();
  give_up_window();
  if (!window_busy_) window_.spare();
  keeper_.trim();
  if (device_codec_ != nullptr) device_codec_->trim();
}

void Engine::vacate() {
  if (!slab_.is_over_limit()) return;
  for (const auto& [id, tensor] : live_)
    if (slab_.is_beyond_limit(tensor->memory) && !vacate(tensor)) break;
  if (!window_busy_) vacate_window();
  keeper_.give_back_surplus();
}

// False: the drive takes no more.
bool Engine::vacate(const TensorPtr& tensor) {
  if (tensor->clean && is_droppable(*tensor, true)) drop(*tensor);
  return !is_victim(tensor) || drive_ == nullptr || start_write(tensor) == 0;
}

// Others make room for it, once they are on the drive. Where nobody can, it has to be without memory itself.
void Engine::vacate_window() {
  bool moved = false;
  while (!(moved = window_.move_below_limit()) && drop_clean(true)) {
  }
  if (moved || writing_bytes_ != 0) return;
  make_room(window_.bytes());
  if (writing_bytes_ == 0) window_.withhold();
}

}  // namespace terrace::liballoc::offload
