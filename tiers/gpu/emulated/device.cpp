// See device.h.
#include "tiers/gpu/emulated/device.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

#include "tiers/gpu/device.h"
#include "tiers/gpu/without_throwing.h"

namespace terrace::tiers::gpu {
namespace {

// Copied sooner than the stream's thread wakes up for it.
constexpr std::uint64_t brief_bytes = std::uint64_t{64} << 10;

thread_local char last_error[160] = "";

// Every failure passes here on its way out, so that error_text() can say what failed.
int told(const char* what, int error) noexcept {
  if (error == 0 || error == EBUSY) return error;
  std::snprintf(last_error, sizeof last_error, "emulated device: %s: %s", what, ::strerrordesc_np(error));
  return error;
}

}  // namespace

EmulatedDevice::EmulatedDevice(const DeviceSpec& spec) noexcept
    : lag_ns_(spec.lag_ns),
      to_host_(spec.to_host_bytes_per_s, spec.latency_ns),
      to_device_(spec.to_device_bytes_per_s, spec.latency_ns) {}

int EmulatedDevice::open(std::uint64_t capacity_bytes) noexcept {
  if (const int error = memory_.open(capacity_bytes); error != 0) return error;
  return without_throwing(
      [&] { return streams_.emplace(nullptr, std::make_shared<StreamObject>(lag_ns_)), 0; });
}

std::uint64_t EmulatedDevice::frame_bytes() const noexcept { return frame_size; }

const char* EmulatedDevice::error_text() const noexcept { return last_error; }

int EmulatedDevice::reserve_address(std::uint64_t bytes, std::byte** out) noexcept {
  return told("reserving addresses", memory_.reserve_address(bytes, out));
}

int EmulatedDevice::release_address(std::byte* base, std::uint64_t bytes) noexcept {
  return told("releasing addresses", memory_.release_address(base, bytes));
}

int EmulatedDevice::create_frame(Place place, Frame* out) noexcept {
  return told("creating a frame", memory_.create_frame(place, out));
}

int EmulatedDevice::destroy_frame(Frame frame) noexcept {
  return told("destroying a frame", memory_.destroy_frame(frame));
}

int EmulatedDevice::map(std::byte* at, std::span<const Frame> frames) noexcept {
  return told("mapping frames", memory_.map(at, frames));
}

int EmulatedDevice::unmap(std::byte* at, std::uint64_t bytes) noexcept {
  return told("unmapping frames", memory_.unmap(at, bytes));
}

int EmulatedDevice::pin(void* host, std::uint64_t bytes) noexcept {
  return told("locking host memory", pins_.pin(host, bytes));
}

int EmulatedDevice::unpin(void* host) noexcept { return told("unlocking host memory", pins_.unpin(host)); }

StreamObject* EmulatedDevice::find(Stream stream) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(stream);
  return found == streams_.end() ? nullptr : found->second.get();
}

EventObject* EmulatedDevice::find(Event event) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = events_.find(event);
  return found == events_.end() ? nullptr : found->second.get();
}

int EmulatedDevice::create_stream(Stream* out) noexcept {
  const int error = without_throwing([&] {
    auto stream = std::make_shared<StreamObject>();
    StreamObject* const handle = stream.get();
    const std::lock_guard lock(mutex_);
    streams_.emplace(handle, std::move(stream));
    *out = handle;
    return 0;
  });
  return told("creating a stream", error);
}

int EmulatedDevice::destroy_stream(Stream stream) noexcept {
  std::shared_ptr<StreamObject> last;  // goes without the lock: it finishes its work
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(stream);
  if (stream == nullptr || found == streams_.end()) return told("destroying a stream", EINVAL);
  last = std::move(found->second);
  streams_.erase(found);
  return 0;
}

int EmulatedDevice::create_event(Event* out) noexcept {
  const int error = without_throwing([&] {
    auto event = std::make_unique<EventObject>();
    EventObject* const handle = event.get();
    const std::lock_guard lock(mutex_);
    events_.emplace(handle, std::move(event));
    *out = handle;
    return 0;
  });
  return told("creating an event", error);
}

int EmulatedDevice::destroy_event(Event event) noexcept {
  const std::lock_guard lock(mutex_);
  return told("destroying an event", events_.erase(event) == 1 ? 0 : EINVAL);
}

int EmulatedDevice::record(Event event, Stream stream) noexcept {
  EventObject* const at = find(event);
  StreamObject* const in = find(stream);
  if (at == nullptr || in == nullptr) return told("recording an event", EINVAL);
  return told("recording an event", without_throwing([&] { return in->push_record(*at), 0; }));
}

int EmulatedDevice::wait(Stream stream, Event event) noexcept {
  EventObject* const at = find(event);
  StreamObject* const in = find(stream);
  if (at == nullptr || in == nullptr) return told("waiting for an event", EINVAL);
  const EmulatedMarkPointer mark = at->latest();
  if (mark == nullptr) return 0;
  return told("waiting for an event", without_throwing([&] {
                in->push_wait(mark);
                if (stream == nullptr && lag_ns_ != 0) mark->work_ahead();
                return 0;
              }));
}

int EmulatedDevice::query(Event event) noexcept {
  EventObject* const at = find(event);
  if (at == nullptr) return told("asking for an event", EINVAL);
  const EmulatedMarkPointer mark = at->latest();
  return mark == nullptr ? 0 : told("work before an event", mark->query());
}

int EmulatedDevice::synchronize(Event event) noexcept {
  EventObject* const at = find(event);
  if (at == nullptr) return told("waiting for an event", EINVAL);
  const EmulatedMarkPointer mark = at->latest();
  return mark == nullptr ? 0 : told("work before an event", mark->wait());
}

EmulatedLink& EmulatedDevice::link(Way way) noexcept {
  switch (way) {
    case Way::to_host:
      return to_host_;
    case Way::to_device:
      return to_device_;
    case Way::on_device:
      break;
  }
  return on_device_;
}

std::uint64_t EmulatedDevice::moved_bytes(Way way) const noexcept {
  return const_cast<EmulatedDevice*>(this)->link(way).moved_bytes();
}

int EmulatedDevice::run_copy(void* to, const void* from, std::uint64_t bytes, Way way, Part part) noexcept {
  if (part != Part::time && (!memory_.accessible(from, bytes) || !memory_.accessible(to, bytes))) return EIO;
  switch (part) {
    case Part::whole:
      link(way).copy(to, from, bytes);
      break;
    case Part::bytes:
      std::memmove(to, from, bytes);
      break;
    case Part::time:
      link(way).occupy(bytes);
      break;
  }
  return 0;
}

int EmulatedDevice::push(Stream stream, StreamObject::Task task, bool is_brief, Ahead ahead) noexcept {
  StreamObject* const in = find(stream);
  if (in == nullptr) return EINVAL;
  return without_throwing([&] { return in->push(std::move(task), is_brief, ahead), 0; });
}

int EmulatedDevice::copy(Stream stream, void* to, const void* from, std::uint64_t bytes, Way way) noexcept {
  if (bytes == 0) return find(stream) == nullptr ? told("copying", EINVAL) : 0;
  if (to == nullptr || from == nullptr) return told("copying", EINVAL);
  const bool is_brief = bytes <= brief_bytes && !link(way).is_paced();
  return told("copying", without_throwing([&] {
                return push(
                    stream, [=, this](Part part) { return run_copy(to, from, bytes, way, part); }, is_brief,
                    Ahead::may);
              }));
}

// A kernel's bytes can be made ahead of its turn, as a copy's can.
int EmulatedDevice::launch(Stream stream, const Kernel& kernel) noexcept {
  if (kernel.emulated == nullptr) return told("launching a kernel that has no emulation", EINVAL);
  const auto run = [function = kernel.emulated, arguments = kernel.arguments](Part part) {
    if (part != Part::time) function(arguments);
    return 0;
  };
  return told("launching a kernel", push(stream, run, false, Ahead::may));
}

int EmulatedDevice::call_host(Stream stream, void (*function)(void*), void* argument) noexcept {
  if (function == nullptr) return told("queuing a function", EINVAL);
  return told("queuing a function", without_throwing([&] {
                return push(
                    stream, [=](Part) { return function(argument), 0; }, false, Ahead::never);
              }));
}

int open_emulated_device(const DeviceSpec& spec, std::unique_ptr<Device>* out, std::string* reason) {
  if (spec.capacity_bytes == 0 || spec.capacity_bytes % frame_size != 0) {
    *reason = "an emulated device's capacity is a multiple of 2M, as in emulated:8G";
    return EINVAL;
  }
  auto device = std::make_unique<EmulatedDevice>(spec);
  if (const int error = device->open(spec.capacity_bytes); error != 0) {
    *reason = std::string("the emulated device could not be made: ") + ::strerrordesc_np(error) +
              "; it needs a file of memory (memfd) and a thread";
    return error;
  }
  *out = std::move(device);
  return 0;
}

}  // namespace terrace::tiers::gpu
