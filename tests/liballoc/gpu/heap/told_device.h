// A device whose events pass when the test says so, whose calls fail when the test says so, and which counts
// them. Memory is real (frames of one file, mapped where they are), copies happen at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "tiers/gpu/device.h"

namespace terrace::test {

namespace gpu = terrace::tiers::gpu;

// What this device's handles point to (the emulated device, in the same program, has types of its own).
// A position in its stream's work, as told by the test.
struct ToldStream {
  std::uint64_t position = 0;  // of what was put into it
  std::uint64_t passed = 0;
  int error = 0;  // of work that failed when its turn came
};

struct ToldEvent {
  ToldStream* stream = nullptr;
  std::uint64_t position = 0;
  int error = 0;
};

inline ToldStream* told(gpu::Stream stream) { return reinterpret_cast<ToldStream*>(stream); }
inline ToldEvent* told(gpu::Event event) { return reinterpret_cast<ToldEvent*>(event); }
inline gpu::Stream handle_of(ToldStream* stream) { return reinterpret_cast<gpu::Stream>(stream); }

class ToldDevice final : public gpu::Device {
 public:
  explicit ToldDevice(std::uint64_t frames);
  ~ToldDevice() override;

  // Work in `stream` is done up to now; by itself nothing ever is, unless `automatic`.
  void pass(gpu::Stream stream) { object(stream)->passed = object(stream)->position; }
  bool automatic = false;
  // What waits are told for.
  gpu::Stream handle(gpu::Stream stream) { return handle_of(object(stream)); }
  gpu::Stream latest_stream() { return handle_of(&streams_.back()); }
  void* latest_pinned = nullptr;

  // The n-th call from now on of that name ("map", "create_frame", "copy", …) fails with `error`. "copied":
  // the copy is queued, and fails in the stream's turn, as does then what is behind it.
  void fail(const std::string& call, int nth, int error) { faults_[call] = {nth, error}; }

  // Calls so far, and who was told to wait for whom.
  std::map<std::string, std::uint64_t> calls;
  struct Wait {
    gpu::Stream stream;
    gpu::Stream for_stream;
    std::uint64_t position;
  };
  std::vector<Wait> waits;
  std::uint64_t frames_alive = 0, host_frames_alive = 0, pinned = 0, events_alive = 0, mapped = 0;

  gpu::Kind kind() const noexcept override { return gpu::Kind::emulated; }
  std::string_view name() const noexcept override { return "told"; }
  std::uint64_t frame_bytes() const noexcept override { return frame; }
  gpu::Memory memory() const noexcept override { return {frames_ * frame, (frames_ - frames_alive) * frame}; }
  int reserve_address(std::uint64_t bytes, std::byte** out) noexcept override;
  int release_address(std::byte* base, std::uint64_t bytes) noexcept override;
  int create_frame(gpu::Place place, gpu::Frame* out) noexcept override;
  int destroy_frame(gpu::Frame f) noexcept override;
  int map(std::byte* at, std::span<const gpu::Frame> frames) noexcept override;
  int unmap(std::byte* at, std::uint64_t bytes) noexcept override;
  int pin(void* host, std::uint64_t bytes) noexcept override;
  int unpin(void* host) noexcept override;
  int create_stream(gpu::Stream* out) noexcept override;
  int destroy_stream(gpu::Stream stream) noexcept override;
  int create_event(gpu::Event* out) noexcept override;
  int destroy_event(gpu::Event event) noexcept override;
  int record(gpu::Event event, gpu::Stream stream) noexcept override;
  int wait(gpu::Stream stream, gpu::Event event) noexcept override;
  int query(gpu::Event event) noexcept override;
  int synchronize(gpu::Event event) noexcept override;
  int copy(gpu::Stream stream, void* to, const void* from, std::uint64_t bytes,
           gpu::Way way) noexcept override;
  int launch(gpu::Stream stream, const gpu::Kernel& kernel) noexcept override;
  int call_host(gpu::Stream stream, void (*function)(void*), void* argument) noexcept override;
  const char* error_text() const noexcept override { return "told to fail"; }

  static constexpr std::uint64_t frame = std::uint64_t{2} << 20;

 private:
  struct Fault {
    int in = 0;
    int error = 0;
  };
  int enter(const char* call);  // counts it; the error that the test ordered
  ToldStream* object(gpu::Stream stream) {
    if (stream == gpu::stream_of_this_thread) return &own_;
    return stream == nullptr ? &default_ : told(stream);
  }

  std::uint64_t frames_;
  int file_;
  std::uint64_t next_handle_ = 1;
  std::vector<std::uint64_t> free_handles_;
  std::map<std::byte*, gpu::Frame> mappings_;
  std::map<std::uint64_t, gpu::Place> frame_places_;
  std::map<std::string, Fault> faults_;
  ToldStream default_, own_;  // the threads' own are one here
  std::deque<ToldStream> streams_;
};

}  // namespace terrace::test
