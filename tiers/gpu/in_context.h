// A call to a library that works in the thread's current CUDA context (cuFile), made in the device's.
#pragma once

#include "tiers/gpu/device.h"
#include "tiers/gpu/without_throwing.h"

namespace terrace::tiers::gpu {

// What `function`, called on this thread at once, returns (an errno value; what it throws becomes one), or
// the device's errno. Queues nothing.
template <class Function>
int in_context(Device& device, const Function& function) noexcept {
  struct Call {
    const Function& function;
    int result;
  } call{function, 0};
  const auto run = [](void*, void* arguments) {
    auto& made = *static_cast<Call*>(arguments);
    made.result = without_throwing(made.function);
    return 0;
  };
  if (device.kind() != Kind::cuda) return without_throwing(function);
  const int error = device.launch(nullptr, {.cuda = run, .arguments = &call});
  return error != 0 ? error : call.result;
}

}  // namespace terrace::tiers::gpu
