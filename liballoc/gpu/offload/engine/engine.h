// The offload engine: stores tensors in host memory and on a drive, and brings them back (terrace_gpu.h).
//
//   caller      store() ───────────────► out crew: await                  fetch() ──► in crew: verify
//                  │ queues the copy           │                             ▲              │ queues the copy
//   streams        └──► own stream, out        ▼                             │              └──► own stream,
//   in host                               slab (pinned) ◄──── drive thread ─────┘
//
// On a GPU nothing waits for the device but the crews: store() and fetch() queue, arrive() orders the
// caller's stream behind an event. For CPU tensors the crews copy, compress, and sum what they copy while it
// is in the cache. On a device kernels compress (device_codec.h), and two crews more wait for them: one
// before the copy out, which takes as many bytes as the frame came to, one for the verdict on the way back.
//
// One lock guards tensors, slab and order; what takes long (copying, summing, coding) is done without it, on
// a tensor that `users` keeps alive and in place. Every change that somebody may wait for is announced at
// `changed_`.
//
// Errors are errno values here, positive; api.cpp negates them. Any thread may call anything; what may throw
// is std::bad_alloc, before anything has begun.
#pragma once

#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "liballoc/gpu/offload/codec/device_codec.h"
#include "liballoc/gpu/offload/codec/host_codec.h"
#include "liballoc/gpu/offload/codec/proofs.h"
#include "liballoc/gpu/offload/drive/direct_path.h"
#include "liballoc/gpu/offload/drive/drive.h"
#include "liballoc/gpu/offload/drive/write_budget.h"
#include "liballoc/gpu/offload/engine/crew.h"
#include "liballoc/gpu/offload/engine/step_tensors.h"
#include "liballoc/gpu/offload/engine/tensor.h"
#include "liballoc/gpu/offload/memory/device_link.h"
#include "liballoc/gpu/offload/memory/held_extent.h"
#include "liballoc/gpu/offload/memory/slab.h"
#include "liballoc/gpu/offload/memory/slab_keeper.h"
#include "liballoc/gpu/offload/plan/step_planner.h"
#include "liballoc/gpu/offload/session/engine_session.h"
#include "liballoc/gpu/offload/session/memory_demand.h"
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
  StepPlanner* planner() const { return planner_.get(); }
  // For it: now, and what was waited until now.
  StepRecorder::Moment moment();
  std::string plan_text() const;
  // A stored tensor goes on to the drive as soon as it is there.
  int write_when_stored(std::uint64_t id);

 private:
  using Lock = std::unique_lock<std::mutex>;
  // Below this a copy takes no longer than waking a thread for it does.
  static constexpr std::uint64_t copied_at_once_bytes = std::uint64_t{64} << 10;

  Engine() = default;
  int open_parts(const Settings& settings, std::string* reason);
  int open_session(const Settings& settings, std::string* reason);
  int open_device(const Settings& settings, std::string* reason);
  int open_drive(const Settings& settings, std::string* reason);
  int open_codec(const Settings& settings, std::string* reason);
  int open_direct(const Settings& settings, std::string* reason);
  void try_direct(const Settings& settings);
  void begin_thread();
  void start_crews();
  void open_planner(const Settings& settings);

  bool on_host() const { return link_ == nullptr; }
  // The host does the device's work: what is there is there for everybody once the host has waited.
  bool host_waits() const { return on_host() || !link_->device().orders_programs_work(); }
  bool takes(void* stream) const {
    return stream == nullptr || (!on_host() && link_->device().kind() == tiers::gpu::Kind::cuda);
  }
  TensorPtr find(std::uint64_t id) const;
  // An event that cannot be asked, as while a stream is captured, or behind work that failed, may be pending.
  bool is_pending(Event event) { return event != nullptr && link_->device().query(event) != 0; }
  static bool is_moving(const Tensor& tensor) {
    return tensor.arrival >= Tensor::Arrival::awaiting && tensor.arrival <= Tensor::Arrival::decoding;
  }

  // The host copies it sooner than it wakes a thread for that.
  bool is_brief(const Tensor& tensor) const {
    const bool as_it_is = on_host() || tensor.codec_to_try == compression::Codec::raw;
    return host_waits() && as_it_is && tensor.bytes <= copied_at_once_bytes && !tensor.in_pieces;
  }

  // A host's thread reads the source, and not the device's streams.
  bool by_hand(const Tensor& tensor) const { return on_host() || (tensor.in_pieces && !tensor.direct); }

  // Stores (engine_store.cpp)
  int begin_store(Tensor& tensor, Stream stream);
  int start_copy(Tensor& tensor);
  void disown(const TensorPtr& tensor);
  void drop_refused(Tensor& tensor, Stream stream, Lock& lock);
  int adopt(const TensorPtr& tensor, Stream stream);
  bool is_finished_at_once(const Tensor& tensor);
  void finish_store(const TensorPtr& tensor, Lock& lock);
  int carry_out(Tensor& tensor);
  int carry_out_on_host(Tensor& tensor);
  bool encode(Tensor& tensor, std::byte* frame);
  bool source_is_free(Tensor& tensor);
  bool tell_left(Tensor& tensor);
  void wait_until_left(Tensor& tensor, Lock& lock);
  bool has_copy_queued(Tensor& tensor);
  int let_stream_wait(Tensor& tensor, Stream stream, bool* out);
  void queue_to_leave(const TensorPtr& tensor);

  // By the device's kernels (engine_codec.cpp)
  void plan_codec(Tensor& tensor);
  void make_frame(const TensorPtr& tensor);
  int run_encoder(Tensor& tensor);
  int copy_what_was_made(Tensor& tensor);
  void give_back_piece(Tensor& tensor);
  int carry_frame_by_device(Tensor& tensor, Lock& lock);
  void judge(const TensorPtr& tensor);

  // Host memory for those who wait for it (engine_room.cpp), under the lock
  void start_keeper();
  std::uint64_t wanted_growth() const;
  std::uint64_t wanted_room(const Tensor& tensor) const;
  int room_for(std::uint64_t bytes, tiers::Extent* out);

  // What the daemon grants (engine_share.cpp)
  void start_session();
  Report report();
  void take_grant(const Grant& grant);
  void trim();
  void vacate();
  bool vacate(const TensorPtr& tensor);
  void vacate_window();

  int room_to_store(Tensor& tensor);
  int no_room() const { return keeper_.error() != 0 ? keeper_.error() : ENOSPC; }
  // The device, or a thread, is not through with it.
  bool is_released_memory_due() const { return !retired_.empty() || ending_ != 0; }
  int may_wait(Tensor& tensor);
  int queue_for_room(const TensorPtr& tensor);
  void serve_waiting();
  bool settle(const TensorPtr& tensor);
  int serve(const TensorPtr& tensor);
  bool room_may_come(const Tensor& tensor, int* refusal);
  int make_room(std::uint64_t bytes);

  // Past host memory (engine_window.cpp)
  struct Part {
    std::uint64_t offset;  // in the tensor
    std::uint64_t bytes;
  };
  std::uint64_t usual_window_bytes() const;
  std::uint64_t window_for(const Tensor& tensor) const;
  void claim_window();
  bool make_window();
  bool has_window() const;
  bool may_go_in_pieces(const Tensor& tensor) const;
  int room_in_pieces(Tensor& tensor);
  int take_window(const Tensor& tensor, bool to_read, Lock& lock);
  void leave_window();
  Part part_at(std::uint64_t bytes, std::uint64_t offset) const;
  int carry_out_in_pieces(Tensor& tensor);
  int carry_in_through_window(Tensor& tensor, Lock& lock);
  int carry_in_in_pieces(Tensor& tensor, Lock& lock);
  int carry_in_frame(Tensor& tensor, Lock& lock);
  int part_to_window(Tensor& tensor, const Part& part, std::uint64_t* sum, Lock& lock);
  int part_from_window(Tensor& tensor, const Part& part, std::uint64_t* sum, Lock& lock);
  int part_by_drive(Tensor& tensor, const Part& part, tiers::Direction direction, Lock& lock);
  void part_done(const Drive::Job& job, int error);
  void spoil(Tensor& tensor, std::uint64_t bytes, Lock& lock);
  int synchronized(Event event, int error);
  int departed(Tensor& tensor);

  // The same from device memory, by GPUDirect Storage (engine_direct.cpp)
  bool may_go_directly(const Tensor& tensor) const;
  bool prefers_direct(const Tensor& tensor) const;
  static std::uint64_t direct_bytes(const Tensor& tensor);
  int write_directly(Tensor& tensor);
  int end_direct_store(Tensor& tensor);
  // What lies in host memory was read ahead.
  static bool comes_by_cufile(const Tensor& tensor) {
    return tensor.direct && !tensor.memory_filled && !tensor.through_host;
  }
  int carry_in_staged(Tensor& tensor, Lock& lock);
  int bring_frame(Tensor& tensor, const Piece& piece);
  int read_directly(const Tensor& tensor, const Piece& piece);
  int read_through_window(Tensor& tensor, const Piece& piece);
  void give_up_cufile(Tensor& tensor);
  int check_frame(const Tensor& tensor, const Piece& piece);
  int frame_sum(const Piece& piece, std::uint64_t* out);

  // Fetches (engine_fetch.cpp)
  int begin_fetch(const TensorPtr& tensor, void* to, Stream stream);
  int start_fetch(const TensorPtr& tensor, std::byte* to, Stream stream);
  void bring(const TensorPtr& tensor);
  void bring_in(const TensorPtr& tensor);
  void run_arrival(const TensorPtr& tensor, Lock& lock);
  int carry_in(Tensor& tensor, Lock& lock);
  int carry_in_on_host(Tensor& tensor);
  int carry_frame_in_on_host(Tensor& tensor, const std::byte* frame);
  bool copy_in_on_host(Tensor& tensor, const std::byte* memory);
  int carry_in_by_device(Tensor& tensor, Lock& lock);
  int decode(Tensor& tensor, const std::byte* frame);
  int arrive(const TensorPtr& tensor, Stream stream, Lock& lock);
  int await_arrival(Tensor& tensor, Stream stream, Lock& lock);

  // Between host memory and the drive (engine_drive.cpp), all under the lock
  void pump();
  void write_as_planned();
  void write_early();
  void plan_reads();
  bool is_victim(const TensorPtr& tensor) const;
  TensorPtr next_victim();
  int charge(Tensor& tensor, std::uint64_t bytes);
  void was_submitted(Tensor& tensor, std::uint64_t bytes);
  int space_on_drive(Tensor& tensor, std::uint64_t bytes);
  int start_write(const TensorPtr& victim);
  bool start_read(const TensorPtr& tensor, bool urgent);
  bool may_be_read_ahead(const Tensor& tensor) const;
  bool room_to_read(const TensorPtr& tensor, bool urgent);
  bool drop_clean(bool even_read_ahead);
  bool is_droppable(const Tensor& tensor, bool even_read_ahead);
  void drop(Tensor& tensor);
  void now_clean(const TensorPtr& tensor);
  void not_clean(Tensor& tensor);
  void was_asked_for(Tensor& tensor);
  void drive_done(const Drive::Job& job, int error);
  void written(const Drive::Job& job, int error);
  void was_read(const TensorPtr& tensor, int error);
  void give_up_read(Tensor& tensor);
  void end_drives_step();
  void give_up_window();

  // Ends (engine_step.cpp)
  void forget(Tensor& tensor);
  void end_memorys_step();
  void wait_for_hands(Tensor& tensor, Lock& lock);
  int order_behind(const Tensor& tensor, Stream stream);
  void synchronize(const Tensor& tensor, Lock& lock);
  void end_use(Tensor& tensor);
  void free_parts(Tensor& tensor);
  void retire(const tiers::Extent& extent, Event event);
  void collect_retired();

  struct Retired {  // host memory that the device still reads or writes
    tiers::Extent extent;
    Event event;
  };

  EngineSession session_;  // goes last: the memory that it was granted is free by then
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string path_;
  std::string warning_;
  std::unique_ptr<DeviceLink> link_;  // none: CPU tensors
  Slab slab_;
  SlabKeeper keeper_{&slab_, &mutex_};
  MemoryDemand demand_;
  Proofs proofs_;
  StepTensors step_;
  std::unordered_map<std::uint64_t, TensorPtr> live_;
  std::vector<Retired> retired_;
  terrace_offload_statistics counts_{};
  std::unique_ptr<HostCodec> codec_;           // of CPU tensors; none: stored as they are
  std::unique_ptr<DeviceCodec> device_codec_;  // of a device's

  WriteBudget writes_;
  std::unique_ptr<Drive> drive_;        // none: host memory alone
  int drive_error_ = 0;                 // why nothing more is written
  std::unique_ptr<DirectPath> direct_;  // none: it does not work here, or does not pay
  std::deque<TensorPtr> waiting_;       // for room
  std::uint64_t waiting_bytes_ = 0;
  std::deque<TensorPtr> planned_writes_;  // a plan wants them on the drive
  std::deque<TensorPtr> clean_;           // about the furthest from their fetch first
  std::uint64_t read_ahead_limit_bytes_ = 0;
  std::uint64_t read_ahead_bytes_ = 0;
  std::uint64_t writing_bytes_ = 0;
  std::uint64_t clean_bytes_ = 0;
  unsigned leaving_ = 0;       // tensors between start_copy() and the end of finish_store()
  unsigned ending_ = 0;        // tensors that were released, until their last user is through
  bool waited_ = false;        // a store of this step found no room
  bool pressed_ = false;       // or one of the last step did: write before it happens
  HeldExtent window_{&slab_};  // between the drive and what host memory does not hold
  bool window_busy_ = false;   // somebody carries something through it
  Crew frame_crew_;            // before out_crew_
  Crew out_crew_;
  Crew in_crew_;
  Crew verdict_crew_;  // behind in_crew_
  std::string policy_;
  std::unique_ptr<StepPlanner> planner_;  // none: the caller decides
};

}  // namespace terrace::liballoc::offload
