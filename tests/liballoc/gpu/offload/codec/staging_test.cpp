// Pieces of device memory for frames: apart from each other, in turn, and given back with the device's
// memory.
#include "liballoc/gpu/offload/codec/staging.h"
#include "tests/units.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

using terrace::liballoc::offload::Piece;
using terrace::liballoc::offload::Staging;
using namespace terrace::tiers::gpu;

namespace {

using terrace::tests::mib;

std::unique_ptr<Device> device_of(const char* text) {
  DeviceSpec spec;
  std::string reason;
  std::unique_ptr<Device> device;
  REQUIRE(parse_device(text, &spec, &reason) == 0);
  REQUIRE(open_device(spec, &device, &reason) == 0);
  return device;
}

}  // namespace

TEST_CASE("PiecesLieApartInMemoryThatIsMapped") {
  const auto device = device_of("emulated:64M");
  Staging staging;
  staging.open(device.get(), 4 * mib);
  CHECK(device->memory().free_bytes == 64 * mib);  // nothing before it is needed
  std::vector<Piece*> taken;
  for (int i = 0; i < 4; ++i) taken.push_back(staging.take(mib));
  CHECK(device->memory().free_bytes == 60 * mib);
  for (std::size_t i = 0; i < taken.size(); ++i)
    std::fill_n(staging.at(*taken[i]), mib, static_cast<std::byte>(i));
  for (std::size_t i = 0; i < taken.size(); ++i)
    CHECK(std::all_of(staging.at(*taken[i]), staging.at(*taken[i]) + mib,
                      [i](std::byte byte) { return byte == static_cast<std::byte>(i); }));
  for (Piece* piece : taken) staging.give(piece);
  staging.give(staging.take(4 * mib));  // joined again
}

TEST_CASE("ItsMemoryGoesBackToTheDevice") {
  const auto device = device_of("emulated:64M");
  {
    Staging staging;
    staging.open(device.get(), 3 * mib);  // two frames
    CHECK(staging.capacity_bytes() == 4 * mib);
    staging.give(staging.take(1));
  }
  CHECK(device->memory().free_bytes == 64 * mib);
}

TEST_CASE("ADeviceWithoutMemoryHasNoPieces") {
  const auto device = device_of("emulated:8M");
  Staging staging;
  staging.open(device.get(), 16 * mib);
  CHECK(staging.take(1) == nullptr);
  CHECK(device->memory().free_bytes == 8 * mib);
}

TEST_CASE("ALargePieceIsNotStarvedBySmallOnes") {
  const auto device = device_of("emulated:64M");
  Staging staging;
  staging.open(device.get(), 2 * mib);
  Piece* held = staging.take(mib);
  std::atomic<bool> has_large{false};
  std::thread large([&] {
    Piece* piece = staging.take(2 * mib);
    has_large = true;
    staging.give(piece);
  });
  std::vector<std::thread> small;
  std::atomic<int> served{0};
  while (!staging.is_waited_for()) std::this_thread::yield();
  for (int i = 0; i < 4; ++i)
    small.emplace_back([&] {
      Piece* piece = staging.take(4096);
      if (has_large) ++served;
      staging.give(piece);
    });
  CHECK(!has_large);
  staging.give(held);
  large.join();
  for (std::thread& thread : small) thread.join();
  CHECK(served == 4);
}

TEST_CASE("MorePiecesThanThereAreWaitForOneToComeBack") {
  const auto device = device_of("emulated:64M");
  Staging staging;
  staging.open(device.get(), 4 * mib);
  std::vector<std::thread> threads;
  std::atomic<int> served{0};
  for (unsigned i = 0; i < 2 * Staging::most_pieces; ++i)
    threads.emplace_back([&] {
      Piece* piece = staging.take(4096);
      ++served;
      staging.give(piece);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(served == 2 * Staging::most_pieces);
}
