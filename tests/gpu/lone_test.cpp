// One tensor a call, its description given to the first kernel: the two launches of compress_lone() and
// decompress_lone() on the emulator.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "against_cpu.h"
#include "cases.h"
#include "compression/compressor.h"
#include "compression/cuda/check_call.cuh"
#include "compression/cuda/decode/decompress.cuh"
#include "compression/cuda/encode/compress.cuh"

using namespace terrace::compression;
using namespace terrace::compression::cuda;
using namespace terrace::compression::cuda::test;

namespace {

// What a call leaves where the host reads it; nothing of it is right before.
template <typename Tensor, typename Prepare, typename Main>
Verdict run_lone(const Tensor& tensor, Prepare prepare, Main main, std::size_t prepare_bytes,
                 std::size_t main_bytes) {
  const u64 blocks = blocks_of(tensor.content_bytes);
  std::vector<Vector> scratch(scratch_sizes(1, blocks).total() / sizeof(Vector), Vector{~u64{0}, ~u64{0}});
  Lone<Tensor> lone{};
  Verdict verdict{{77, FrameError::truncated}, 0};
  const Work<Tensor> work{
      &lone.tensor, &verdict.result, scratch_at(scratch.data(), 1, blocks), 1, static_cast<u32>(blocks),
      &lone.timing};
  simt::run({.ctas = 1, .threads = 256, .shared_bytes = prepare_bytes, .seed = 3}, [&] {
    begin_lone(tensor, lone, &verdict.ns);
    prepare(work);
  });
  simt::run({.ctas = 3, .threads = 256, .shared_bytes = main_bytes, .resident_ctas = 3, .seed = 5},
            [&] { main(work); });
  return verdict;
}

Verdict compress_alone(const Source& source) {
  return run_lone(
      source, [](const auto& work) { prepare_compress(work); },
      [](const auto& work) { compress_blocks(work); }, 0, sizeof(EncodeShared));
}

Verdict decompress_alone(const Target& target) {
  return run_lone(
      target, [](const auto& work) { prepare_decompress(work); },
      [](const auto& work) { decompress_blocks(work); }, sizeof(CheckShared), sizeof(DecodeShared));
}

std::size_t in_vectors(std::size_t bytes) { return (bytes + sizeof(Vector) - 1) / sizeof(Vector); }

}  // namespace

TEST_CASE("ALoneTensorIsDoneInTwoLaunchesAndTimed") {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{4}, block_bytes, 5 * block_bytes + 400}) {
    INFO(bytes << " bytes");
    const Bytes content = activations(bytes, 4, 1);
    std::vector<Vector> from(in_vectors(bytes)), frame(in_vectors(frame_bound(bytes))), back(from.size());
    std::copy(content.begin(), content.end(), static_cast<std::byte*>(static_cast<void*>(from.data())));
    const Verdict made = compress_alone({.content = from.data(),
                                         .frame = frame.data(),
                                         .content_bytes = bytes,
                                         .frame_capacity = frame.size() * sizeof(Vector)});
    REQUIRE(made.result.error == FrameError::none);
    REQUIRE(made.ns > 0);
    const Bytes expected = frame_of(content, Codec::zvc, ElementType::f32);
    REQUIRE(made.result.bytes == expected.size());
    REQUIRE(std::memcmp(frame.data(), expected.data(), expected.size()) == 0);
    const Verdict read = decompress_alone({.frame = frame.data(),
                                           .content = back.data(),
                                           .frame_bytes = made.result.bytes,
                                           .content_bytes = bytes});
    REQUIRE(read.result.error == FrameError::none);
    REQUIRE(read.ns > 0);
    REQUIRE((bytes == 0 || std::memcmp(back.data(), content.data(), bytes) == 0));
  }
}

TEST_CASE("ALoneTensorThatIsRefusedIsTimedAsWell") {
  std::vector<Vector> memory(64);
  const Verdict made = compress_alone(
      {.content = memory.data(), .frame = memory.data(), .content_bytes = 64, .frame_capacity = 8});
  REQUIRE(made.result.error == FrameError::too_small);
  REQUIRE(made.ns > 0);
  const Verdict read = decompress_alone(
      {.frame = memory.data(), .content = memory.data(), .frame_bytes = 512, .content_bytes = 64});
  REQUIRE(read.result.error == FrameError::not_a_frame);
  REQUIRE(read.ns > 0);
}

TEST_CASE("ALoneCallWithoutItsMemoryIsRefused") {
  std::vector<Vector> scratch(in_vectors(lone_front_bytes + scratch_sizes(1, 1).total()));
  auto* bytes = static_cast<u8*>(static_cast<void*>(scratch.data()));
  Verdict verdict;
  const Source source{.content_bytes = 64};
  const Launch launch{256, 1, 1};
  const LoneMemory whole{bytes, scratch.size() * sizeof(Vector), &verdict};
  Work<Source> work;
  const auto status_with = [&](const LoneMemory& memory) { return lone_work(source, memory, launch, work); };
  REQUIRE(status_with({nullptr, whole.scratch_bytes, &verdict}) == Status::bad_batch);
  REQUIRE(status_with({bytes + 8, whole.scratch_bytes - 8, &verdict}) == Status::bad_batch);
  REQUIRE(status_with({bytes, whole.scratch_bytes, nullptr}) == Status::bad_batch);
  REQUIRE(status_with({bytes, lone_front_bytes - 1, &verdict}) == Status::scratch_small);
  REQUIRE(status_with({bytes, whole.scratch_bytes - 1, &verdict}) == Status::scratch_small);
  REQUIRE(lone_work(source, whole, Launch{}, work) == Status::bad_geometry);
  REQUIRE(status_with(whole) == Status::ok);
  REQUIRE(work.blocks == 1);
}

// Whoever finishes the tensor is at one of its last blocks, one for each CTA.
TEST_CASE("NoBlockIsTakenEarlyWhereATensorMayEnd") {
  const Source sources[] = {{.content_bytes = 3 * block_bytes}, {.content_bytes = 9 * block_bytes + 4}};
  const Work<Source> work{sources, nullptr, {}, 2, 13};
  std::vector<u32> early;  // by one thread of each CTA
  simt::run({.ctas = 4, .threads = 32, .resident_ctas = 4}, [&] {
    for (u32 block = 0; block < 13 && simt::thread_index() == 0; ++block)
      if (takes_ahead(work, block < 3 ? Place{0, block, 0} : Place{1, block, 3})) early.push_back(block);
  });
  REQUIRE((early == std::vector<u32>{3, 4, 5, 6, 7, 3, 4, 5, 6, 7, 3, 4, 5, 6, 7, 3, 4, 5, 6, 7}));
}
