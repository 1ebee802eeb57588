// What the daemon grants (session/engine_session.h): of the host memory that the engine was opened with, of
// the pool, and of what may be written to it.
//
// A grant that is lowered takes effect at once for what is not in use: the slab gives none of it to anybody.
// What is in use beyond it is moved out while the program runs: a copy that the drive has as well is dropped,
// what lies in host memory alone is written first. Without a drive it stays until it is released, at the end
// of its step at the latest. Nothing waits for any of it, and what has no room stays where it is, as with a
// full budget.
//
// The bounce and the transit extent are what brings tensors back, so they are moved and never given up.
#include <utility>

#include "liballoc/gpu/offload/engine/engine.h"

namespace terrace::liballoc::offload {

// Alone, the engine has what it was opened with.
int Engine::open_session(const Settings& settings, std::string* reason) {
  if (const int error =
          session_.open(settings.session, settings.device_text, settings.wants_granted_pool(), reason);
      error != 0)
    return error;
  warning_ = session_.warning();
  return 0;
}

void Engine::start_session() {
  if (session_.grant() != nullptr) take_grant(*session_.grant());
  session_.start({.report = [this] { return report(); },
                  .take_grant = [this](const Grant& grant) { take_grant(grant); }});
}

// What the device has passed meanwhile is seen here where nobody else looks.
Report Engine::report() {
  Report report{.counts = statistics()};
  const Lock lock(mutex_);
  if (slab_.is_over_limit()) pump();
  report.wanted_memory_bytes = demand_.bytes(slab_.committed_bytes(), slab_.capacity_bytes());
  report.memory_limit_bytes = slab_.limit_bytes();
  report.drive_written_bytes = writes_.written_bytes();
  return report;
}

// A file of its own is no part of what the daemon grants.
void Engine::take_grant(const Grant& grant) {
  const Lock lock(mutex_);
  slab_.set_limit(grant.budget_bytes);
  if (writes_.is_leased()) {
    drive_->set_limit(grant.pool_limit_bytes);
    writes_.set_lease(grant.most_written_bytes);
  }
  pump();
}

void Engine::vacate() {
  if (!slab_.is_over_limit()) return;
  for (const auto& [id, tensor] : live_)
    if (slab_.is_beyond_limit(tensor->memory) && !vacate(tensor)) break;
  if (bounce_user_ == nullptr) move_below_limit(&bounce_);
  if (!transit_busy_) move_below_limit(&transit_);
  if (grows_aside())
    memory_work_.notify_one();
  else
    slab_.give_back_surplus();
}

// False: the drive takes no more.
bool Engine::vacate(const TensorPtr& tensor) {
  if (tensor->clean && is_droppable(*tensor, true)) drop(*tensor);
  return !is_victim(tensor) || drive_ == nullptr || start_write(tensor) == 0;
}

// Others make room for it, once they are on the drive. Where nothing helps it stays.
void Engine::move_below_limit(tiers::Extent* extent) {
  tiers::Extent moved{};
  if (extent->bytes == 0 || !slab_.is_beyond_limit(*extent)) return;
  int error = 0;
  while ((error = slab_.reserve(extent->bytes, &moved)) != 0 && drop_clean(true)) {
  }
  if (error == 0)
    slab_.release(std::exchange(*extent, moved));
  else if (writing_bytes_ == 0)
    make_room(extent->bytes);
}

}  // namespace terrace::liballoc::offload
