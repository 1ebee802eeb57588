#include "liballoc/gpu/offload/memory/slab_keeper.h"

#include <utility>

#include "tiers/gpu/start_without_signals.h"

namespace terrace::liballoc::offload {

void SlabKeeper::start(Callbacks callbacks) {
  callbacks_ = std::move(callbacks);
  thread_ = tiers::gpu::start_without_signals([this] { run(); });
}

void SlabKeeper::stop() {
  if (!works_aside()) return;
  {
    const Lock lock(*mutex_);
    ending_ = true;
  }
  work_.notify_one();
  thread_.join();
}

void SlabKeeper::run() {
  callbacks_.begin();
  Lock lock(*mutex_);
  while (!ending_)
    if (!grow_aside(lock) && !shrink_aside(lock)) work_.wait(lock);
}

// What the machine refuses is full until the step has ended. A generous step first, then what is needed.
bool SlabKeeper::grow_aside(Lock& lock) {
  const std::uint64_t bytes = callbacks_.wanted();
  if (bytes == 0) return false;
  slab_->begin_growth();
  for (const bool generous : {true, false}) {
    const Slab::Chunk chunk = slab_->growth_for(bytes, generous);
    if (chunk.bytes == 0) break;
    lock.unlock();
    const int error = slab_->commit(chunk);
    lock.lock();
    error_ = error;
    if (error != 0) continue;
    slab_->add(chunk);
    break;
  }
  slab_->end_growth();
  callbacks_.changed();
  return true;
}

bool SlabKeeper::shrink_aside(Lock& lock) {
  const Slab::Chunk chunk = slab_->take_surplus();
  if (chunk.bytes == 0) return false;
  lock.unlock();
  slab_->decommit(chunk);
  lock.lock();
  slab_->removed(chunk);
  callbacks_.changed();
  return true;
}

bool SlabKeeper::grow_now(std::uint64_t bytes) {
  if (works_aside() || error_ != 0 || !slab_->may_grow_for(bytes)) return false;
  error_ = slab_->grow(bytes);
  return error_ == 0;
}

void SlabKeeper::end_step() {
  error_ = 0;
  slab_->trim();
  give_back_surplus();
}

void SlabKeeper::trim() {
  slab_->trim_at_once();
  give_back_surplus();
}

void SlabKeeper::give_back_surplus() {
  if (works_aside())
    wake();
  else
    slab_->give_back_surplus();
}

}  // namespace terrace::liballoc::offload
