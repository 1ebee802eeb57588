#include "tests/liballoc/gpu/heap/told_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

namespace terrace::test {

using gpu::Event;
using gpu::Frame;
using gpu::Place;
using gpu::Stream;

ToldDevice::ToldDevice(std::uint64_t frames) : frames_(frames), file_(memfd_create("frames", MFD_CLOEXEC)) {}

ToldDevice::~ToldDevice() { close(file_); }

int ToldDevice::enter(const char* call) {
  ++calls[call];
  const auto fault = faults_.find(call);
  if (fault == faults_.end() || --fault->second.in > 0) return 0;
  const int error = fault->second.error;
  faults_.erase(fault);
  return error;
}

int ToldDevice::reserve_address(std::uint64_t bytes, std::byte** out) noexcept {
  if (const int error = enter("reserve_address"); error != 0) return error;
  void* base = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) return ENOMEM;
  *out = static_cast<std::byte*>(base);
  return 0;
}

int ToldDevice::release_address(std::byte* base, std::uint64_t bytes) noexcept {
  return munmap(base, bytes) == 0 ? 0 : EINVAL;
}

int ToldDevice::create_frame(Place place, Frame* out) noexcept {
  if (const int error = enter("create_frame"); error != 0) return error;
  if (place == Place::device && frames_alive == frames_) return ENOMEM;
  std::uint64_t handle = next_handle_;
  if (free_handles_.empty()) {
    ++next_handle_;
    if (ftruncate(file_, static_cast<off_t>(next_handle_ * frame)) != 0) return ENOMEM;
  } else {
    handle = free_handles_.back();
    free_handles_.pop_back();
  }
  ++(place == Place::device ? frames_alive : host_frames_alive);
  frame_places_[handle] = place;
  *out = {handle, place};
  return 0;
}

int ToldDevice::destroy_frame(Frame f) noexcept {
  if (const int error = enter("destroy_frame"); error != 0) return error;
  const auto known = frame_places_.find(f.handle);
  if (known == frame_places_.end() || known->second != f.place) return EINVAL;
  for (const auto& [at, there] : mappings_) {
    if (there == f) return EBUSY;
  }
  --(f.place == Place::device ? frames_alive : host_frames_alive);
  frame_places_.erase(known);
  free_handles_.push_back(f.handle);
  return 0;
}

int ToldDevice::map(std::byte* at, std::span<const Frame> frames) noexcept {
  if (const int error = enter("map"); error != 0) return error;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (mappings_.contains(at + i * frame)) return EEXIST;
    if (!frame_places_.contains(frames[i].handle)) return EINVAL;
  }
  for (std::size_t i = 0; i < frames.size(); ++i) {
    std::byte* to = at + i * frame;
    if (mmap(to, frame, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_,
             static_cast<off_t>(frames[i].handle * frame)) == MAP_FAILED)
      return errno;
    mappings_[to] = frames[i];
  }
  mapped += frames.size();
  return 0;
}

int ToldDevice::unmap(std::byte* at, std::uint64_t bytes) noexcept {
  if (const int error = enter("unmap"); error != 0) return error;
  for (std::uint64_t b = 0; b < bytes; b += frame) {
    if (!mappings_.contains(at + b)) return ENOENT;
  }
  for (std::uint64_t b = 0; b < bytes; b += frame) mappings_.erase(at + b);
  if (mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) ==
      MAP_FAILED)
    return errno;
  mapped -= bytes / frame;
  return 0;
}

int ToldDevice::pin(void* host, std::uint64_t) noexcept {
  if (const int error = enter("pin"); error != 0) return error;
  ++pinned;
  latest_pinned = host;
  return 0;
}

int ToldDevice::unpin(void*) noexcept {
  --pinned;
  return enter("unpin");
}

int ToldDevice::create_stream(Stream* out) noexcept {
  if (const int error = enter("create_stream"); error != 0) return error;
  *out = handle_of(&streams_.emplace_back());
  return 0;
}

int ToldDevice::destroy_stream(Stream) noexcept { return enter("destroy_stream"); }

int ToldDevice::create_event(Event* out) noexcept {
  if (const int error = enter("create_event"); error != 0) return error;
  auto* event = new (std::nothrow) ToldEvent;
  if (event == nullptr) return ENOMEM;
  ++events_alive;
  *out = reinterpret_cast<Event>(event);
  return 0;
}

int ToldDevice::destroy_event(Event event) noexcept {
  --events_alive;
  delete told(event);
  return enter("destroy_event");
}

int ToldDevice::record(Event event, Stream stream) noexcept {
  if (const int error = enter("record"); error != 0) return error;
  ToldStream& of = *object(stream);
  *told(event) = {&of, ++of.position, of.error};
  if (automatic) pass(stream);
  return 0;
}

int ToldDevice::wait(Stream stream, Event event) noexcept {
  if (const int error = enter("wait"); error != 0) return error;
  const ToldEvent& e = *told(event);
  if (e.stream != nullptr) waits.push_back({stream, handle_of(e.stream), e.position});
  return 0;
}

int ToldDevice::query(Event event) noexcept {
  ++calls["query"];
  const ToldEvent& e = *told(event);
  return e.stream == nullptr || e.stream->passed >= e.position ? e.error : EBUSY;
}

int ToldDevice::synchronize(Event event) noexcept {
  if (const int error = enter("synchronize"); error != 0) return error;
  const ToldEvent& e = *told(event);
  if (e.stream != nullptr && e.stream->passed < e.position) e.stream->passed = e.position;
  return e.error;
}

int ToldDevice::copy(Stream stream, void* to, const void* from, std::uint64_t bytes, gpu::Way) noexcept {
  if (const int error = enter("copy"); error != 0) return error;
  if (const int error = enter("copied"); error != 0) object(stream)->error = error;
  if (object(stream)->error == 0) std::memcpy(to, from, bytes);
  ++object(stream)->position;
  if (automatic) pass(stream);
  return 0;
}

int ToldDevice::launch(Stream stream, const gpu::Kernel& kernel) noexcept {
  if (const int error = enter("launch"); error != 0) return error;
  kernel.emulated(kernel.arguments);
  ++object(stream)->position;
  return 0;
}

int ToldDevice::call_host(Stream stream, void (*function)(void*), void* argument) noexcept {
  if (const int error = enter("call_host"); error != 0) return error;
  function(argument);
  ++object(stream)->position;
  return 0;
}

}  // namespace terrace::test
