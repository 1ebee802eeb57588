// The offload engine: stores tensors in host memory and on a drive, and brings them back (terrace_gpu.h).
//
//   caller      store() ───────────────► out crew: await                  fetch() ──► in crew: verify
//                  │ queues the copy           │                             ▲              │ queues the copy
//   streams        └──► own stream, out        ▼                             │              └──► own stream,
//   in host                                  slab (pinned) ◄──── drive thread ──┘
//
// On a GPU nothing waits for the device but the crews: store() and fetch() queue, arrive() orders the
// caller's stream behind an event. For CPU tensors the crews copy, compress, and sum what they copy while it
// is in the cache. On a device kernels compress (device_frames.h), and two crews more wait for them: one
// before the copy out, which takes as many bytes as the frame came to, one for the verdict on the way back.
//
// The parts, each knowing those below it (decision 066); the lock is in common.h:
//
//   stages      Stores, Fetches                 out, and back
//   ways        HostCopies, DeviceFrames, WindowedPath: CPU tensors; by kernels; past host memory
//   moves       DriveTraffic                    between host memory and the drive
//   ends        Uses                            who uses a tensor
//   space       HostRoom, DriveRoom
//   all         Common                          the lock, the tensors, the device, the crews
//
// The engine puts them together, and has what is done to all tensors: steps, the daemon's grants, statistics.
//
// Errors are errno values here, positive; api.cpp negates them. Any thread may call anything; what may throw
// is std::bad_alloc, before anything has begun.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "liballoc/gpu/offload/engine/device_frames.h"
#include "liballoc/gpu/offload/engine/drive_traffic.h"
#include "liballoc/gpu/offload/engine/fetches.h"
#include "liballoc/gpu/offload/engine/host_copies.h"
#include "liballoc/gpu/offload/engine/stores.h"
#include "liballoc/gpu/offload/engine/uses.h"
#include "liballoc/gpu/offload/engine/windowed_path.h"
#include "liballoc/gpu/offload/plan/step_planner.h"
#include "liballoc/gpu/offload/room/common.h"
#include "liballoc/gpu/offload/room/drive_room.h"
#include "liballoc/gpu/offload/room/host_room.h"
#include "liballoc/gpu/offload/session/engine_session.h"
#include "liballoc/gpu/offload/settings.h"
#include "liballoc/gpu/terrace_gpu.h"

namespace terrace::liballoc::offload {

class Engine {
 public:
  // 0 or errno with *reason.
  static int open(const Settings& settings, std::unique_ptr<Engine>* out, std::string* reason);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  // As in terrace_gpu.h. store(): `left`, if it is not nullptr, is told what left() would say.
  int store(const terrace_offload_tensor& tensor, void* stream, std::uint64_t* id, bool* left);
  int left(std::uint64_t id, bool* out);
  int leave(std::uint64_t id, void* stream, bool* out);
  int fetch(std::uint64_t id, void* to, void* stream);
  int arrive(std::uint64_t id, void* stream);
  int fetch_arrive(std::uint64_t id, void* to, void* stream);
  int release(std::uint64_t id, void* stream);
  int end_step();
  int next_step();
  std::size_t expect(std::uint64_t id, std::uint64_t* out, std::size_t count);
  terrace_offload_statistics statistics();
  const char* path() const { return path_.c_str(); }
  const char* warning() const { return warning_.c_str(); }

  // Where steps are planned; else nullptr. It outlives every other call.
  StepPlanner* planner() const { return common_.planner.get(); }
  // For it: now, and what was waited until now.
  StepRecorder::Moment moment();
  std::string plan_text() const;
  // A stored tensor goes on to the drive as soon as it is there.
  int write_when_stored(std::uint64_t id);

 private:
  Engine();
  int open_parts(const Settings& settings, std::string* reason);
  int open_session(const Settings& settings, std::string* reason);
  int open_device(const Settings& settings, std::string* reason);
  int open_codec(const Settings& settings, std::string* reason);
  int open_drive(const Settings& settings, std::string* reason);
  void open_planner(const Settings& settings);
  void start_crews();
  void start_session();

  // Calls function(tensor, lock) with the lock; ENOENT where there is none, EINVAL for a stream of nobody's.
  template <typename Function>
  int with(std::uint64_t id, void* stream, const Function& function);
  // Whenever something has changed for whoever waits.
  void stir();
  void drive_done(const Drive::Job& job, int error);
  void end_memorys_step();
  // For the daemon.
  Report report();
  void take_grant(const Grant& grant);
  void trim();

  EngineSession session_;  // goes last: the memory that it was granted is free by then
  Common common_;
  HostRoom host_{&common_};
  DriveRoom drive_{&common_};
  Uses uses_{&common_, &host_, &drive_};
  DriveTraffic traffic_{&common_, &host_, &drive_, &uses_};
  WindowedPath windowed_{&common_, &host_, &drive_};
  HostCopies copies_{&common_, &host_};
  DeviceFrames frames_{&common_, &host_, &drive_, &uses_, &windowed_};
  Stores stores_{&common_, &host_, &drive_, &uses_, &traffic_, &windowed_, &copies_, &frames_};
  Fetches fetches_{&common_, &host_, &uses_, &traffic_, &windowed_, &copies_, &frames_};
  std::string path_;
  std::string warning_;
  std::string policy_;
};

}  // namespace terrace::liballoc::offload
