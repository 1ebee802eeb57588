#include "liballoc/gpu/offload/plan/plan_thread.h"

#include <sched.h>

#include <exception>
#include <system_error>
#include <utility>

#include "tiers/gpu/start_without_signals.h"

namespace terrace::liballoc::offload {
namespace {

// A machine without room for the plan goes on without one.
Result<Plan> made_of(PlanRequest request) {
  try {
    return make_plan(std::move(request));
  } catch (const std::exception& error) {
    return refused<Plan>(std::string("it cannot be made: ") + error.what());
  }
}

}  // namespace

PlanThread::~PlanThread() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool PlanThread::ask(PlanRequest request) {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) {
    try {
      thread_ = tiers::gpu::start_without_signals([this] { serve(); });
    } catch (const std::system_error&) {
      return false;
    }
  }
  made_.reset();
  asked_ = std::move(request);
  wake_.notify_all();
  return true;
}

std::optional<Result<Plan>> PlanThread::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(made_, std::nullopt);
}

void PlanThread::serve() {
  const sched_param none{};
  sched_setscheduler(0, SCHED_IDLE, &none);  // of this thread; refused: it runs like any other
  for (std::unique_lock lock(mutex_);;) {
    wake_.wait(lock, [this] { return ending_ || asked_.has_value(); });
    if (ending_) return;
    PlanRequest request = std::move(*std::exchange(asked_, std::nullopt));
    lock.unlock();
    Result<Plan> made = made_of(std::move(request));
    lock.lock();
    if (!asked_) made_ = std::move(made);
  }
}

}  // namespace terrace::liballoc::offload
