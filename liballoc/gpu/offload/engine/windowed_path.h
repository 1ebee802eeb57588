// Between the drive and what host memory does not hold: through the window (room/window.h).
//
//   way out   a tensor too large to stand beside others, or one that finds host memory full of what cannot be
//             dropped: part by part to the window, summed, and to the drive
//   way back  whatever is on the drive alone and finds no room: part by part to its target, or, a frame on a
//             device, to a piece of the staging (device_frames.h). A frame of a CPU tensor comes as a whole.
//
// A part's copy, sum and transfer run one behind the other, and one tensor at a time has the window: the
// drive is what it waits for most. The sum goes on from part to part (stored_sum.h), so it is that of the
// whole. On the way back it is known only once the last part has arrived; what arrived before is then
// overwritten if it is wrong.
//
// By a thread that uses the tensor, and waits. Errors are errno values.
#pragma once

#include <functional>

#include "liballoc/gpu/offload/room/common.h"
#include "liballoc/gpu/offload/room/drive_room.h"
#include "liballoc/gpu/offload/room/host_room.h"

namespace terrace::liballoc::offload {

class WindowedPath {
 public:
  WindowedPath(Common* common, HostRoom* host, DriveRoom* drive)
      : common_(common), window_(&host->window()), drive_(drive) {}

  // The tensor has its place on the drive. Takes the lock.
  int carry_out(Tensor& tensor);
  // What is stored of it, to where the device, or the host for CPU tensors, may write once `to_free` has
  // passed (nullptr: at once). EBADMSG: it is not what was stored; what has come of it is overwritten.
  int carry_in(Tensor& tensor, std::byte* to, Event to_free, Lock& lock);
  // A frame to `take`, which is called without the lock and says what came of it.
  int carry_in_frame(Tensor& tensor, const std::function<int(const std::byte* frame)>& take, Lock& lock);

  // Under the lock: the drive is through with a part.
  void done(const Drive::Job& job, int error);

 private:
  using Part = Window::Part;

  int to_window(Tensor& tensor, const Part& part, std::uint64_t* sum, Lock& lock);
  int from_window(Tensor& tensor, const Part& part, std::byte* to, Event to_free, std::uint64_t* sum,
                  Lock& lock);
  int by_drive(Tensor& tensor, const Part& part, tiers::Direction direction, Lock& lock);
  void spoil(Tensor& tensor, std::uint64_t bytes, std::byte* to, Event to_free, Lock& lock);

  Common* common_;
  Window* window_;
  DriveRoom* drive_;
};

}  // namespace terrace::liballoc::offload
