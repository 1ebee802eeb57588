// The way back, from the engine's memory, or past it, to the caller's.
//
//   fetch() ─┬─ it lies in host memory, or has not left ───────────────────────► in crew: verify, copy
//            ├─ on the drive, and there is room: the drive reads it ───────────► in crew
//            └─ on the drive alone: through the window (windowed_path.h), or a frame by the device ─► in crew
//
// On a GPU nothing waits for the device but the crews: arrive() orders the caller's stream behind an event.
// Who waits for a tensor that the in crew has not begun brings it in himself.
//
// Errors are errno values.
#pragma once

#include <cstdint>

#include "liballoc/gpu/offload/engine/device_frames.h"
#include "liballoc/gpu/offload/engine/drive_traffic.h"
#include "liballoc/gpu/offload/engine/host_copies.h"
#include "liballoc/gpu/offload/engine/uses.h"
#include "liballoc/gpu/offload/engine/windowed_path.h"
#include "liballoc/gpu/offload/room/common.h"

namespace terrace::liballoc::offload {

class Fetches {
 public:
  Fetches(Common* common, HostRoom* host, Uses* uses, DriveTraffic* traffic, WindowedPath* windowed,
          HostCopies* copies, DeviceFrames* frames)
      : common_(common),
        host_(host),
        uses_(uses),
        traffic_(traffic),
        windowed_(windowed),
        copies_(copies),
        frames_(frames) {}

  // As in terrace_gpu.h, of valid arguments.
  int fetch(const TensorPtr& tensor, void* to, Stream stream, Lock& lock);
  int arrive(const TensorPtr& tensor, Stream stream, Lock& lock);
  // Both; what is queued is brought in by the caller.
  int fetch_arrive(const TensorPtr& tensor, void* to, Stream stream, Lock& lock);

  // The in crew's work.
  void bring_in(const TensorPtr& tensor, Lock& lock);

 private:
  int begin(const TensorPtr& tensor, void* to, Stream stream);
  void bring(const TensorPtr& tensor);
  void run(const TensorPtr& tensor, Lock& lock);
  int carry_in(Tensor& tensor, Lock& lock);
  int carry_in_on_host(Tensor& tensor, Lock& lock);
  int carry_in_by_device(Tensor& tensor, Lock& lock);
  int await_arrival(Tensor& tensor, Stream stream, Lock& lock);

  Common* common_;
  HostRoom* host_;
  Uses* uses_;
  DriveTraffic* traffic_;
  WindowedPath* windowed_;
  HostCopies* copies_;
  DeviceFrames* frames_;
};

}  // namespace terrace::liballoc::offload
