// What all parts of an engine share: its lock, what is counted, its tensors, and the device with the threads.
//
// One lock guards tensors, host memory, the drive's space and order; what takes long (copying, summing,
// coding) is done without it, on a tensor that `users` keeps alive and in place. A function that is given a
// Lock may give it up and take it again meanwhile. Every change that somebody may wait for is announced at
// `changed`.
//
// Parts know those below them, and none above: whoever has freed something calls stir(), which serves the
// stores that wait for it and the drive.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "liballoc/gpu/offload/codec/proofs.h"
#include "liballoc/gpu/offload/memory/device_link.h"
#include "liballoc/gpu/offload/plan/step_planner.h"
#include "liballoc/gpu/offload/tensors/executor.h"
#include "liballoc/gpu/offload/tensors/step_tensors.h"
#include "liballoc/gpu/offload/tensors/tensor.h"
#include "liballoc/gpu/terrace_gpu.h"

namespace terrace::liballoc::offload {

using Lock = std::unique_lock<std::mutex>;

struct Common {
  // Below this a copy takes no longer than waking a thread for it does.
  static constexpr std::uint64_t copied_at_once_bytes = std::uint64_t{64} << 10;

  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by it.
  terrace_offload_statistics counts{};
  StepTensors step;
  std::unordered_map<std::uint64_t, TensorPtr> live;
  std::function<void()> stir;
  // Set while the engine is opened.
  std::unique_ptr<DeviceLink> link;      // none: CPU tensors
  std::unique_ptr<StepPlanner> planner;  // none: the caller decides
  // Any thread's.
  Proofs proofs;
  Executor executor;

  bool on_host() const { return link == nullptr; }
  tiers::gpu::Device& device() const { return link->device(); }
  bool is_cuda() const { return !on_host() && device().kind() == tiers::gpu::Kind::cuda; }
  // The host does the device's work: what is there is there for everybody once the host has waited.
  bool host_waits() const { return on_host() || !device().orders_programs_work(); }
  bool takes(void* stream) const { return stream == nullptr || is_cuda(); }
  TensorPtr find(std::uint64_t id) const {
    const auto found = live.find(id);
    return found == live.end() ? nullptr : found->second;
  }
  // An event that cannot be asked, as while a stream is captured, or behind work that failed, may be pending.
  bool is_pending(Event event) const { return event != nullptr && device().query(event) != 0; }
  // Waits for it; `error`, or else what came of it.
  int synchronized(Event event, int error) const {
    if (event == nullptr) return error;
    const int ended = device().synchronize(event);
    return error != 0 ? error : ended;
  }
  // A host's thread reads the source, and not the device's streams.
  bool by_hand(const Tensor& tensor) const { return on_host() || (tensor.in_pieces && !tensor.direct); }
  // The host copies it sooner than it wakes a thread for that.
  bool is_brief(const Tensor& tensor) const {
    const bool as_it_is = on_host() || tensor.codec_to_try == compression::Codec::raw;
    return host_waits() && as_it_is && tensor.bytes <= copied_at_once_bytes && !tensor.in_pieces;
  }
  // The first that a thread of the engine's does: the program may be capturing a graph while the thread asks
  // for events and page-locks memory.
  void begin_thread() const {
    if (!on_host()) device().relax_stream_capture();
  }
};

}  // namespace terrace::liballoc::offload
