// What the tests of devices share: memory on a device, contents, and a gate that holds a stream.
#pragma once

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <semaphore>
#include <string>
#include <vector>

#include "tiers/gpu/device.h"

namespace terrace::tiers::gpu::test {

inline constexpr std::uint64_t mib = std::uint64_t{1} << 20;

inline std::unique_ptr<Device> open(const std::string& text) {
  DeviceSpec spec;
  std::string reason;
  INFO(text);
  REQUIRE(parse_device(text, &spec, &reason) == 0);
  std::unique_ptr<Device> device;
  const int error = open_device(spec, &device, &reason);
  INFO(reason);
  REQUIRE(error == 0);
  return device;
}

// An address range with frames mapped from its start on.
class Area {
 public:
  Area(Device& device, std::size_t frames, Place place = Place::device, std::size_t room = 0)
      : device_(device), bytes_((frames + room) * device.frame_bytes()), frames_(frames) {
    REQUIRE(device.reserve_address(bytes_, &base_) == 0);
    for (Frame& frame : frames_) REQUIRE(device.create_frame(place, &frame) == 0);
    if (frames != 0) REQUIRE(device.map(base_, frames_) == 0);
  }
  // Whatever a test has left mapped there goes first.
  ~Area() {
    for (std::uint64_t at = 0; at < bytes_; at += device_.frame_bytes()) {
      device_.unmap(base_ + at, device_.frame_bytes());
    }
    for (const Frame& frame : frames_) device_.destroy_frame(frame);
    CHECK(device_.release_address(base_, bytes_) == 0);
  }
  Area(const Area&) = delete;
  Area& operator=(const Area&) = delete;

  std::byte* at(std::uint64_t offset = 0) const { return base_ + offset; }
  std::byte* frame_at(std::size_t number) const { return base_ + number * device_.frame_bytes(); }
  const std::vector<Frame>& frames() const { return frames_; }

 private:
  Device& device_;
  std::uint64_t bytes_;
  std::byte* base_ = nullptr;
  std::vector<Frame> frames_;
};

class OwnStream {
 public:
  explicit OwnStream(Device& device) : device_(device) { REQUIRE(device.create_stream(&stream_) == 0); }
  ~OwnStream() { CHECK(device_.destroy_stream(stream_) == 0); }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  operator Stream() const { return stream_; }

 private:
  Device& device_;
  Stream stream_ = nullptr;
};

class OwnEvent {
 public:
  explicit OwnEvent(Device& device) : device_(device) { REQUIRE(device.create_event(&event_) == 0); }
  ~OwnEvent() { CHECK(device_.destroy_event(event_) == 0); }
  OwnEvent(const OwnEvent&) = delete;
  OwnEvent& operator=(const OwnEvent&) = delete;
  operator Event() const { return event_; }

 private:
  Device& device_;
  Event event_ = nullptr;
};

// Holds the stream it is queued in until open(); a test that never opens it fails instead of hanging.
class Gate {
 public:
  void queue(Device& device, Stream stream) {
    REQUIRE(device.call_host(
                stream, [](void* self) { static_cast<Gate*>(self)->pass(); }, this) == 0);
  }
  void open() { opened_.release(); }

 private:
  void pass() { (void)opened_.try_acquire_for(std::chrono::seconds(20)); }
  std::counting_semaphore<> opened_{0};
};

using Bytes = std::vector<std::uint8_t>;

inline Bytes pattern(std::size_t bytes, std::uint8_t seed) {
  Bytes result(bytes);
  for (std::size_t i = 0; i < bytes; ++i) result[i] = static_cast<std::uint8_t>(seed + i * 7 + i / 251);
  return result;
}

// The host waits until everything now in the stream is done. The error that ended its work, if one did.
inline int finish(Device& device, Stream stream) {
  const OwnEvent event(device);
  REQUIRE(device.record(event, stream) == 0);
  return device.synchronize(event);
}

inline void put(Device& device, std::byte* to, const Bytes& from) {
  REQUIRE(device.copy(nullptr, to, from.data(), from.size(), Way::to_device) == 0);
  REQUIRE(finish(device, nullptr) == 0);
}

inline Bytes get(Device& device, const std::byte* from, std::size_t bytes) {
  Bytes result(bytes);
  REQUIRE(device.copy(nullptr, result.data(), from, bytes, Way::to_host) == 0);
  REQUIRE(finish(device, nullptr) == 0);
  return result;
}

}  // namespace terrace::tiers::gpu::test
