// The device's codec by itself: a frame that is damaged behind the host's checksum is found by the kernel.
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <vector>

#include "liballoc/gpu/offload/codec/device_codec.h"
#include "tests/units.h"

using namespace terrace::liballoc::offload;
using terrace::compression::Codec;
using terrace::compression::ElementType;

namespace {

using terrace::tests::mib;

// Two thirds zeros.
std::vector<float> activations(std::size_t count) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i)
    out[i] = i * 2654435761 % 3 == 0 ? 1.0F + static_cast<float>(i % 1000) : 0.0F;
  return out;
}

struct Opened {
  DeviceLink link;
  Slab slab;
  DeviceCodec codec;

  Opened() {
    Settings settings;
    settings.compress = Compress::forced;
    settings.codec = Codec::zvc;
    settings.staging_bytes = 4 * mib;
    terrace::tiers::gpu::DeviceSpec spec;
    std::unique_ptr<terrace::tiers::gpu::Device> device;
    std::string reason;
    REQUIRE(terrace::tiers::gpu::parse_device("emulated:64M", &spec, &reason) == 0);
    REQUIRE(terrace::tiers::gpu::open_device(spec, &device, &reason) == 0);
    REQUIRE(link.open(std::move(device), &reason) == 0);
    REQUIRE(slab.open(16 * mib, &link.device(), &reason) == 0);
    REQUIRE(codec.open(&link, &slab, settings, &reason) == 0);
  }
  int await(Event* event) {
    const int error = link.device().synchronize(*event);
    link.give_event(std::exchange(*event, nullptr));
    return error;
  }
  // The frame in the slab.
  void store(Tensor& tensor) {
    Event passed = nullptr;
    Piece* piece = codec.take(tensor);
    REQUIRE(codec.encode(tensor, *piece, &passed) == 0);
    REQUIRE(await(&passed) == 0);
    tensor.stored_bytes = codec.made(tensor, *piece).bytes;
    REQUIRE(tensor.stored_bytes > 0);
    REQUIRE(slab.reserve(tensor.stored_bytes, &tensor.memory) == 0);
    std::memcpy(slab.at(tensor.memory), codec.frame(*piece), tensor.stored_bytes);
    codec.give(piece);
  }
  int fetch(Tensor& tensor) {
    Event arrived = nullptr;
    std::uint64_t ns = 0;
    Piece* piece = codec.take(tensor);
    REQUIRE(codec.decode(tensor, *piece, &arrived) == 0);
    REQUIRE(await(&arrived) == 0);
    const int error = codec.verdict(tensor, *piece, &ns);
    codec.give(piece);
    return error;
  }
};

}  // namespace

TEST_CASE("AFrameDamagedBehindTheChecksumIsFoundByTheKernel") {
  Opened opened;
  const auto source = activations(mib / 4);
  std::vector<float> back(source.size());
  Tensor tensor;
  tensor.source = reinterpret_cast<const std::byte*>(source.data());
  tensor.bytes = mib;
  tensor.element = ElementType::f32;
  tensor.codec = tensor.codec_to_try = Codec::zvc;
  tensor.to = reinterpret_cast<std::byte*>(back.data());
  REQUIRE(opened.link.mark(nullptr, &tensor.to_free) == 0);
  opened.store(tensor);
  CHECK(opened.fetch(tensor) == 0);
  CHECK((back == source));
  for (const std::uint64_t at : {std::uint64_t{0}, std::uint64_t{70}, tensor.stored_bytes - 20}) {
    CAPTURE(at);
    opened.slab.at(tensor.memory)[at] ^= std::byte{4};
    CHECK(opened.fetch(tensor) == EBADMSG);
    opened.slab.at(tensor.memory)[at] ^= std::byte{4};
  }
  CHECK(opened.fetch(tensor) == 0);
  opened.link.give_event(tensor.to_free);
}

TEST_CASE("WhoeverAbandonsAPieceHasItBackAtRest") {
  Opened opened;
  const auto source = activations(mib / 4);
  Tensor tensor;
  tensor.source = reinterpret_cast<const std::byte*>(source.data());
  tensor.bytes = mib;
  tensor.element = ElementType::f32;
  tensor.codec_to_try = Codec::zvc;
  for (int i = 0; i < 20; ++i) {
    Event passed = nullptr;
    Piece* piece = opened.codec.take(tensor);
    REQUIRE(opened.codec.encode(tensor, *piece, &passed) == 0);
    opened.codec.abandon(piece);
    CHECK(opened.link.device().query(passed) == 0);
    opened.link.give_event(passed);
  }
}
