// The way out, from the caller's memory to the engine's.
//
// store() never waits: pinned memory grows beside the engine (memory/slab_keeper.h), and a store that needs
// it is queued meanwhile, as it is when room has to be made by writing to the drive.
//
//   store ──► room? ──yes──► copy out ──► out crew: await it
//               │ no
//               ▼
//   waiting ──► slab grows ───────────► drive takes others ──► in pieces past host memory ──► refused
//                                  └──► directly to the drive (device_frames.h)
//
// In that order, each when the one before cannot help; where there is a direct path, nobody waits for others
// to be written.
//
// Without a drive, a larger grant of the daemon's is waited for (session/memory_demand.h).
//
// What was released is waited for on every way, also without a drive: its memory is free once the stream has
// passed, and whoever sums or decodes it is through.
//
// Errors are errno values.
#pragma once

#include <cstdint>
#include <deque>

#include "liballoc/gpu/offload/engine/device_frames.h"
#include "liballoc/gpu/offload/engine/drive_traffic.h"
#include "liballoc/gpu/offload/engine/host_copies.h"
#include "liballoc/gpu/offload/engine/uses.h"
#include "liballoc/gpu/offload/engine/windowed_path.h"
#include "liballoc/gpu/offload/room/common.h"

namespace terrace::liballoc::offload {

class Stores {
 public:
  Stores(Common* common, HostRoom* host, DriveRoom* drive, Uses* uses, DriveTraffic* traffic,
         WindowedPath* windowed, HostCopies* copies, DeviceFrames* frames)
      : common_(common),
        host_(host),
        drive_(drive),
        uses_(uses),
        traffic_(traffic),
        windowed_(windowed),
        copies_(copies),
        frames_(frames) {}

  // As in terrace_gpu.h, of valid arguments. store() takes the lock; `left`, if it is not nullptr, is told
  // what left() would say.
  int store(const terrace_offload_tensor& tensor, Stream stream, std::uint64_t* id, bool* left);
  int left(Tensor& tensor, bool* out);
  int leave(Tensor& tensor, Stream stream, bool* out, Lock& lock);

  // The out crew's work, or the caller's.
  void finish(const TensorPtr& tensor, Lock& lock);
  // Under the lock: something has changed for those that wait.
  void serve_waiting();
  // What whoever waits longest needs the memory thread for.
  std::uint64_t wanted_growth() const;

 private:
  int adopt(const TensorPtr& tensor, Stream stream);
  void drop_refused(Tensor& tensor, Stream stream, Lock& lock);
  void disown(const TensorPtr& tensor);
  int begin(Tensor& tensor, Stream stream);
  int start_copy(Tensor& tensor);
  int queue_copy(Tensor& tensor);
  void queue_to_leave(const TensorPtr& tensor);
  bool is_finished_at_once(const Tensor& tensor) const;
  int carry_out(Tensor& tensor);
  int carry_out_by_device(Tensor& tensor);
  int departed(Tensor& tensor);

  bool is_being_handed_back(const Tensor& tensor) const;
  bool source_is_free(const Tensor& tensor) const;
  bool has_failed(const Tensor& tensor) const;
  bool tell_left(Tensor& tensor);
  void wait_until_left(Tensor& tensor, Lock& lock);
  bool has_copy_queued(Tensor& tensor);

  int may_wait(Tensor& tensor);
  int queue_for_room(const TensorPtr& tensor);
  bool settle(const TensorPtr& tensor);
  int serve(const TensorPtr& tensor);
  bool room_may_come(const Tensor& tensor, int* refusal);
  std::uint64_t wanted_room(const Tensor& tensor) const;
  bool may_go_in_pieces(const Tensor& tensor) const;
  bool prefers_direct(const Tensor& tensor) const;
  int room_in_pieces(Tensor& tensor);

  Common* common_;
  HostRoom* host_;
  DriveRoom* drive_;
  Uses* uses_;
  DriveTraffic* traffic_;
  WindowedPath* windowed_;
  HostCopies* copies_;
  DeviceFrames* frames_;
  std::deque<TensorPtr> waiting_;  // for room
  unsigned leaving_ = 0;           // tensors between start_copy() and the end of finish()
};

}  // namespace terrace::liballoc::offload
