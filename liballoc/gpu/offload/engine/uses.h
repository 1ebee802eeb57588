// Who uses a tensor, and how it ends: whoever works on it is a user, and the last user of one that was
// released frees what it has. Whoever releases it is a user until he has waited: the events that he waits for
// must stay the tensor's.
//
// Under the engine's lock.
#pragma once

#include "liballoc/gpu/offload/room/common.h"
#include "liballoc/gpu/offload/room/drive_room.h"
#include "liballoc/gpu/offload/room/host_room.h"

namespace terrace::liballoc::offload {

class Uses {
 public:
  Uses(Common* common, HostRoom* host, DriveRoom* drive) : common_(common), host_(host), drive_(drive) {}

  // The caller's memory is his again once this has returned, or on a GPU where the stream is now. 0 or errno.
  int release(Tensor& tensor, Stream stream, Lock& lock);
  // The two halves of that at the end of a step, where the host waits for the device and for all who use it.
  void forget(Tensor& tensor);
  void see_off(Tensor& tensor, Lock& lock);
  // What the device has to do with it comes first: for the stream, 0 or errno, or for the host. Errors of the
  // device's work have no one to go to there: the tensor is forgotten.
  int order_behind(const Tensor& tensor, Stream stream);
  void synchronize(const Tensor& tensor, Lock& lock);
  // One user less.
  void end(Tensor& tensor);
  // Frees what it has, of one that nobody uses.
  void free(Tensor& tensor);

  // Of what was released some memory is not free yet: the device, or a thread, is not through with it.
  bool is_memory_due() const { return host_->has_retired() || ending_ != 0; }

 private:
  void wait_for_hands(Tensor& tensor, Lock& lock);

  Common* common_;
  HostRoom* host_;
  DriveRoom* drive_;
  unsigned ending_ = 0;  // tensors that were released, until their last user is through
};

}  // namespace terrace::liballoc::offload
