// Between host memory and the drive. When a store finds no room, the tensors whose fetch is furthest away are
// written; written, they are clean (room/host_room.h). Once a step had to wait, writing begins early, so
// that clean memory is at hand. In the fetching part of a step tensors are read ahead in the learned order,
// into memory that is free, or clean and not itself read ahead.
//
// Whatever the drive refuses stays in host memory.
//
// Under the engine's lock. Errors are errno values.
#pragma once

#include <cstdint>
#include <deque>

#include "liballoc/gpu/offload/engine/uses.h"
#include "liballoc/gpu/offload/room/common.h"
#include "liballoc/gpu/offload/room/drive_room.h"
#include "liballoc/gpu/offload/room/host_room.h"

namespace terrace::liballoc::offload {

class DriveTraffic {
 public:
  DriveTraffic(Common* common, HostRoom* host, DriveRoom* drive, Uses* uses)
      : common_(common), host_(host), drive_(drive), uses_(uses) {}

  // The drive is through with a tensor.
  void done(const Drive::Job& job, int error);

  // Begins to write as much as makes room for so many bytes. 0, or why nothing is written; that there is
  // nothing to write is no refusal.
  int make_room(std::uint64_t bytes);
  bool is_writing() const { return writing_bytes_ != 0; }
  // A plan wants it on the drive, once it is stored. In the order of the plan.
  void write_when_stored(const TensorPtr& tensor) { planned_writes_.push_back(tensor); }
  void write_as_planned();
  // Before a store finds no room.
  void write_early();
  // To host memory, for a fetch. False: there is no room.
  bool start_read(const TensorPtr& tensor) { return start_read(tensor, true); }
  void read_ahead();
  // What the daemon's grant has no room for moves out.
  void vacate();

 private:
  TensorPtr next_victim();
  int start_write(const TensorPtr& victim);
  bool start_read(const TensorPtr& tensor, bool urgent);
  bool may_be_read_ahead(const Tensor& tensor) const;
  void written(const Drive::Job& job, int error);
  void was_read(const TensorPtr& tensor, int error);
  bool vacate(const TensorPtr& tensor);
  void vacate_window();

  Common* common_;
  HostRoom* host_;
  DriveRoom* drive_;
  Uses* uses_;
  std::deque<TensorPtr> planned_writes_;
  std::uint64_t writing_bytes_ = 0;
};

}  // namespace terrace::liballoc::offload
