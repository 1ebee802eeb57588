// Whether a CPU tensor becomes a frame follows from what the ways were said to take. Codecs really run here,
// so the ways are said to be faster, or slower, than any codec on any machine.
#include "liballoc/gpu/offload/codec/host_codec.h"
#include "tests/units.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <memory>

using namespace terrace::liballoc::offload;
using terrace::compression::Codec;

namespace {

using terrace::tests::kib;
constexpr std::uint64_t at_once_ns = 100, for_ages_ns = 1'000'000'000;
constexpr std::size_t tensor_bytes = 256 * kib;

std::vector<std::byte> half_zeros(std::size_t bytes) {
  std::vector<std::byte> content(bytes);
  for (std::size_t at = 0; at < bytes; at += 8) content[at] = static_cast<std::byte>(at / 8 % 255 + 1);
  return content;
}

// What the engine does with the tensors of a site: frames where the codec says so, copies of the others.
class Site {
 public:
  // How many of so many tensors became frames.
  int frames_of(int tensors, std::uint64_t copy_ns, HostCodec::Way way = HostCodec::Way::memory) {
    int frames = 0;
    for (int i = 0; i < tensors; ++i) frames += store_and_fetch(copy_ns, way) ? 1 : 0;
    return frames;
  }

 private:
  bool store_and_fetch(std::uint64_t copy_ns, HostCodec::Way way) {
    const auto made = codec_.encode(*tensor_, content_, frame_, way);
    std::uint64_t ns = 0;
    if (made.codec != Codec::raw) return codec_.decode(std::span(frame_).first(made.bytes), back_, &ns);
    codec_.moved(way, true, content_.size(), copy_ns);
    codec_.moved(way, false, content_.size(), copy_ns);
    return false;
  }

  static std::shared_ptr<Tensor> tensor_of(std::uint64_t bytes) {
    auto tensor = std::make_shared<Tensor>();
    tensor->bytes = bytes;
    tensor->element = terrace::compression::ElementType::f32;
    tensor->site = 3;
    return tensor;
  }

  HostCodec codec_{Compress::automatic, Codec::raw};
  std::vector<std::byte> content_ = half_zeros(tensor_bytes),
                         frame_ = std::vector<std::byte>(HostCodec::bound(tensor_bytes)),
                         back_ = std::vector<std::byte>(tensor_bytes);
  std::shared_ptr<Tensor> tensor_ = tensor_of(tensor_bytes);
};

}  // namespace

TEST_CASE("TensorsStayAsTheyAreInMemoryWhereCopiesAreFaster") {
  Site tensors;
  tensors.frames_of(50, at_once_ns);
  CHECK(tensors.frames_of(100, at_once_ns) <= 5);  // tries
}

TEST_CASE("TensorsBecomeFramesInMemoryWhereCopiesTakeLonger") {
  Site tensors;
  CHECK(tensors.frames_of(3, for_ages_ns) == 0);  // nothing was timed before
  CHECK(tensors.frames_of(100, for_ages_ns) >= 95);
}

TEST_CASE("CopiesInMemoryAreTimedAgainWhileTensorsBecomeFrames") {
  Site tensors;
  tensors.frames_of(50, for_ages_ns);
  CHECK(tensors.frames_of(640, for_ages_ns) <= 632);
  tensors.frames_of(6400, at_once_ns);  // the machine has changed
  CHECK(tensors.frames_of(100, at_once_ns) <= 5);
}

TEST_CASE("WhatGoesOnToTheDriveIsJudgedByTheDrive") {
  Site tensors;
  tensors.frames_of(50, at_once_ns);
  CHECK(tensors.frames_of(100, for_ages_ns, HostCodec::Way::drive) >= 90);
}
