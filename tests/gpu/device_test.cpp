// What only a GPU can show: graphs, frames in host memory, and sizes that the emulator is too slow for.
#include <catch2/catch.hpp>
#include <memory>

#include "cases.h"
#include "compression/compressor.h"
#include "tools/bench/device/device_memory.h"

using namespace terrace::compression;
using namespace terrace::compression::cuda;
using namespace terrace::compression::cuda::test;
using terrace::bench::DeviceMemory;

namespace {

Bytes zvc_frame_of(std::span<const std::byte> content) {
  static const auto workspace = std::make_unique<Workspace>();
  Bytes frame(frame_bound(content.size()));
  frame.resize(compress(content, frame, {}, *workspace).bytes);
  return frame;
}

// A tensor in device memory, its frame where it is wanted, and all that a call needs.
struct Call {
  DeviceMemory content, frame, source, results, scratch;
  std::uint64_t blocks = 0;
  Launch launch;

  Call(std::size_t bytes, DeviceMemory::Place place)
      : content(bytes),
        frame(frame_bound(bytes), place),
        source(sizeof(Source)),
        results(sizeof(Result), DeviceMemory::Place::pinned),
        scratch(scratch_bytes(1, bytes / block_bytes + 1)) {
    std::vector<Source> sources = {{.content = content.at(),
                                    .frame = frame.at(),
                                    .content_bytes = bytes,
                                    .frame_capacity = frame.bytes()}};
    blocks = number_blocks(sources);
    source.write(sources.data(), sizeof(Source));
    REQUIRE(plan_launch({}, launch) == Status::ok);
  }
  Status enqueue(Stream stream) {
    return cuda::compress(
        {source.at<Source>(), 1, blocks, results.at<Result>(), scratch.at<void>(), scratch.bytes()}, launch,
        stream);
  }
  Bytes made() const {
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    REQUIRE(results.at<Result>()->error == FrameError::none);
    Bytes bytes(results.at<Result>()->bytes);
    frame.read(bytes.data(), bytes.size());
    return bytes;
  }
};

// A tensor that comes with its call, its frame and its verdict.
struct LoneCall {
  DeviceMemory content, frame, verdict;
  Launch launch;

  explicit LoneCall(std::size_t bytes, DeviceMemory::Place place = DeviceMemory::Place::device)
      : content(bytes, place),
        frame(frame_bound(bytes)),
        verdict(sizeof(Verdict), DeviceMemory::Place::pinned) {
    REQUIRE(plan_launch({}, launch) == Status::ok);
  }
  Status enqueue(const DeviceMemory& scratch, Stream stream) const {
    return compress_lone({.content = content.at<void>(),
                          .frame = frame.at<void>(),
                          .content_bytes = content.bytes(),
                          .frame_capacity = frame.bytes()},
                         {scratch.at<void>(), scratch.bytes(), verdict.at<Verdict>()}, launch, stream);
  }
  // Of a stream whose work is done.
  Bytes made() const {
    REQUIRE(verdict.at<Verdict>()->result.error == FrameError::none);
    Bytes bytes(verdict.at<Verdict>()->result.bytes);
    frame.read(bytes.data(), bytes.size());
    return bytes;
  }
};

// A stream, and what was enqueued on it as a graph, once.
struct Capture {
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;

  template <typename Enqueue>
  explicit Capture(const Enqueue& enqueue) {
    REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
    REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
    REQUIRE(enqueue(stream) == Status::ok);
    REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    REQUIRE(cudaGraphInstantiate(&replay, graph, 0) == cudaSuccess);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() {
    cudaGraphExecDestroy(replay);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
  }
  std::size_t nodes() const {
    std::size_t count = 0;
    REQUIRE(cudaGraphGetNodes(graph, nullptr, &count) == cudaSuccess);
    return count;
  }
  void launch() const { REQUIRE(cudaGraphLaunch(replay, stream) == cudaSuccess); }
};

}  // namespace

TEST_CASE("AFrameIsWrittenStraightIntoPinnedMemory") {
  const Bytes content = activations(10'000'000, 4, 1);
  Call call(content.size(), DeviceMemory::Place::pinned);
  call.content.write(content.data(), content.size());
  REQUIRE(call.enqueue(nullptr) == Status::ok);
  REQUIRE((call.made() == zvc_frame_of(content)));
}

TEST_CASE("ALoneTensorNeedsNoDescriptionOnTheDevice") {
  const std::size_t bytes = GENERATE(std::size_t{4}, block_bytes, 10'000'000);
  const Bytes content = activations(bytes, 4, 1), expected = zvc_frame_of(content);
  DeviceMemory from(bytes), frame(frame_bound(bytes)), back(bytes), scratch(lone_scratch_bytes(bytes));
  DeviceMemory pinned(sizeof(Verdict), DeviceMemory::Place::pinned);
  auto* verdict = pinned.at<Verdict>();
  const LoneMemory memory{scratch.at<void>(), scratch.bytes(), verdict};
  Launch launch;
  REQUIRE(plan_launch({}, launch) == Status::ok);
  from.write(content.data(), bytes);
  const Source source{.content = from.at<void>(),
                      .frame = frame.at<void>(),
                      .content_bytes = bytes,
                      .frame_capacity = frame.bytes()};
  REQUIRE(compress_lone(source, memory, launch, nullptr) == Status::ok);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  REQUIRE(verdict->result.error == FrameError::none);
  REQUIRE(verdict->result.bytes == expected.size());
  REQUIRE(verdict->ns > 0);
  const Target target{.frame = frame.at<void>(),
                      .content = back.at<void>(),
                      .frame_bytes = verdict->result.bytes,
                      .content_bytes = bytes};
  REQUIRE(decompress_lone(target, memory, launch, nullptr) == Status::ok);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  REQUIRE(verdict->result.error == FrameError::none);
  Bytes got(bytes);
  back.read(got.data(), bytes);
  REQUIRE((got == content));
  frame.write("damage", 6);
  REQUIRE(decompress_lone(target, memory, launch, nullptr) == Status::ok);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  REQUIRE(verdict->result.error == FrameError::not_a_frame);
}

TEST_CASE("ALoneTensorWithoutScratchMemoryIsRefused") {
  DeviceMemory scratch(64), pinned(sizeof(Verdict), DeviceMemory::Place::pinned);
  Launch launch;
  REQUIRE(plan_launch({}, launch) == Status::ok);
  const LoneMemory memory{scratch.at<void>(), 64, pinned.at<Verdict>()};
  REQUIRE(compress_lone({.content_bytes = 4}, memory, launch, nullptr) != Status::ok);
}

// The second call's kernels write to the scratch memory that the first one's still read, were they not one
// behind the other: the larger tensor comes first.
TEST_CASE("ALoneTensorBehindAnotherHasTheSameScratchMemory") {
  const std::size_t sizes[] = {20'000'000, 4, 3 * block_bytes + 4, 0, 10'000'000};
  DeviceMemory scratch(lone_scratch_bytes(sizes[0]));
  std::vector<LoneCall> calls;
  std::vector<Bytes> expected;
  for (const std::size_t bytes : sizes) {
    const Bytes content = activations(bytes, 4, bytes + 1);
    calls.emplace_back(bytes).content.write(content.data(), bytes);
    expected.push_back(zvc_frame_of(content));
  }
  for (int round = 0; round < 20; ++round) {
    for (LoneCall& call : calls) call.frame.fill(0xcd);
    for (const LoneCall& call : calls) REQUIRE(call.enqueue(scratch, nullptr) == Status::ok);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    for (std::size_t i = 0; i < calls.size(); ++i) REQUIRE((calls[i].made() == expected[i]));
  }
}

// More blocks than CTAs, so that content is fetched ahead.
TEST_CASE("ALoneTensorInPinnedMemoryIsRead") {
  const Bytes content = activations(100 << 20, 4, 7);
  LoneCall call(content.size(), DeviceMemory::Place::pinned);
  DeviceMemory scratch(lone_scratch_bytes(content.size()));
  call.content.write(content.data(), content.size());
  REQUIRE(call.enqueue(scratch, nullptr) == Status::ok);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  REQUIRE((call.made() == zvc_frame_of(content)));
}

TEST_CASE("ALoneTensorInACapturedCallIsCompressedAtEachReplay") {
  LoneCall call(3 * block_bytes);
  DeviceMemory scratch(lone_scratch_bytes(call.content.bytes()));
  const Capture capture([&](Stream stream) { return call.enqueue(scratch, stream); });
  REQUIRE(capture.nodes() == 2);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const Bytes content = sparse(call.content.bytes(), 4, 0.2 * static_cast<double>(seed) - 0.1, seed);
    call.content.write(content.data(), content.size());
    capture.launch();
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    REQUIRE((call.made() == zvc_frame_of(content)));
  }
}

TEST_CASE("ACapturedCallCompressesWhatIsThereAtEachReplay") {
  Call call(3 * block_bytes, DeviceMemory::Place::device);
  const Capture capture([&](Stream stream) { return call.enqueue(stream); });
  REQUIRE(capture.nodes() <= 3);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const Bytes content = sparse(call.content.bytes(), 4, 0.2 * static_cast<double>(seed) - 0.1, seed);
    call.content.write(content.data(), content.size());
    capture.launch();
    REQUIRE((call.made() == zvc_frame_of(content)));
  }
}

TEST_CASE("ManyBlocksInFlightKeepTheirOrder") {
  Bytes content = activations(100 << 20, 4, 3);
  for (std::size_t i = 0; i < content.size() / block_bytes; i += 3)  // sizes that differ from block to block
    std::fill_n(content.begin() + static_cast<std::ptrdiff_t>(i * block_bytes), block_bytes / 2,
                std::byte{0});
  Call call(content.size(), DeviceMemory::Place::device);
  call.content.write(content.data(), content.size());
  const Bytes expected = zvc_frame_of(content);
  for (int i = 0; i < 20; ++i) {
    REQUIRE(call.enqueue(nullptr) == Status::ok);
    REQUIRE((call.made() == expected));
  }
}

TEST_CASE("AThousandTensorsAreOneCall") {
  std::vector<Bytes> contents;
  contents.reserve(1000);
  for (std::uint64_t i = 0; i < 1000; ++i) contents.push_back(activations(4 * (1 + i * 37 % 30000), 4, i));
  std::vector<Input> inputs;
  inputs.reserve(contents.size());
  for (const Bytes& content : contents) inputs.push_back({.content = content});
  const std::vector<Output> outputs = compress_all(inputs);
  std::vector<Frame> frames;
  frames.reserve(contents.size());
  for (std::size_t i = 0; i < contents.size(); ++i) {
    REQUIRE((outputs[i].bytes == zvc_frame_of(contents[i])));
    frames.push_back({outputs[i].bytes, contents[i].size()});
  }
  const std::vector<Output> back = decompress_all(frames);
  for (std::size_t i = 0; i < contents.size(); ++i) REQUIRE((back[i].bytes == contents[i]));
}

TEST_CASE("WrongCallsAreRefusedAsValues") {
  Call call(block_bytes, DeviceMemory::Place::device);
  Launch launch;
  REQUIRE(plan_launch({100, 3}, launch) == Status::bad_geometry);
  REQUIRE(plan_launch({256, 0}, launch) == Status::bad_geometry);
  Batch<Source> batch{call.source.at<Source>(), 1, 1, call.results.at<Result>(), call.scratch.at<void>(), 8};
  REQUIRE(cuda::compress(batch, call.launch, nullptr) == Status::scratch_small);
  batch.scratch_bytes = call.scratch.bytes();
  REQUIRE(cuda::compress(batch, Launch{}, nullptr) == Status::bad_geometry);
  batch.results = nullptr;
  REQUIRE(cuda::compress(batch, call.launch, nullptr) == Status::bad_batch);
}
