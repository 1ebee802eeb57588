// The drive's space for an engine's tensors, and what may be written to it: every transfer is charged to the
// budget (write_budget.h) before the drive is asked for it, and what the drive was never asked for is given
// back. Once it has failed to write, nothing more is written.
//
// Under the engine's lock. Errors are errno values.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "liballoc/gpu/offload/drive/drive.h"
#include "liballoc/gpu/offload/drive/write_budget.h"
#include "liballoc/gpu/offload/room/common.h"
#include "liballoc/gpu/offload/session/engine_session.h"

namespace terrace::liballoc::offload {

class DriveRoom {
 public:
  explicit DriveRoom(Common* common) : common_(common) {}
  DriveRoom(const DriveRoom&) = delete;
  DriveRoom& operator=(const DriveRoom&) = delete;

  // 0 or errno with *reason; *warning has what the user should know. Starts the drive's thread, which calls
  // `done` without the lock. A ledger that cannot be kept is no reason to do without a drive, unless it is to
  // be obeyed or was damaged; but the next job's budget will not know of this one's writes, so it is said.
  int open(const Settings& settings, const EngineSession& session, Drive::Done done, std::string* reason,
           std::string* warning);
  bool is_open() const { return drive_ != nullptr; }  // else host memory is all there is
  void stop();
  // How it is reached, for people.
  std::string path() const;
  Drive& drive() { return *drive_; }
  WriteBudget& writes() { return writes_; }
  std::uint64_t used_bytes() const { return is_open() ? drive_->used_bytes() : 0; }
  std::uint64_t free_bytes() const { return is_open() ? drive_->free_bytes() : 0; }
  tiers::TierSpeeds speeds() const { return is_open() ? drive_->speeds() : tiers::TierSpeeds{}; }
  void obey(const Grant& grant);

  // Why nothing more is written; 0.
  int error() const { return error_; }
  // Whether a tensor of so many bytes may go there: 0, or why not.
  int may_take(std::uint64_t bytes);
  // 0 and tensor.disk, or why the drive takes nothing.
  int reserve(Tensor& tensor, std::uint64_t bytes);
  void release(Tensor& tensor);
  // Gives back all of the tensor's space but so many bytes.
  void shrink(Tensor& tensor, std::uint64_t bytes) { drive_->shrink(&tensor.disk, bytes); }
  // So much of the write budget is the tensor's to write. 0, or what the budget says: all is as it was.
  int charge(Tensor& tensor, std::uint64_t bytes);
  // The drive may have written them, also where it says that it failed.
  void was_submitted(Tensor& tensor, std::uint64_t bytes);
  // The drive's thread is through with a transfer: what came of it is counted.
  void ended(const Drive::Job& job, int error);
  // A drive that was full has room again.
  void end_step();

 private:
  int open_ledger(const Settings& settings, std::string* reason, std::string* warning);

  Common* common_;
  WriteBudget writes_;
  std::unique_ptr<Drive> drive_;
  int error_ = 0;
};

}  // namespace terrace::liballoc::offload
