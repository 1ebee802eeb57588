// The kernels on a GPU.
#include <stdexcept>

#include "kernels.cuh"
#include "machine.h"
#include "tools/bench/device_memory.h"

namespace terrace::compression::cuda::test {
using bench::DeviceMemory;
using bench::require_cuda;

namespace {

__global__ void checksum_kernel(const u64* words, const u32* lengths, u64* results) {
  checksum_prefix(SharedWords{words}, lengths[blockIdx.x], &results[blockIdx.x]);
}

void require_ok(Status status, const char* what) {
  if (status != Status::ok) throw std::runtime_error(std::string(what) + ": " + describe(status));
}

Launch launch_of(const Setting& setting) {
  Launch launch;
  require_ok(plan_launch({setting.threads, setting.resident_ctas}, launch), "planning a launch");
  return launch;
}

void synchronise() { require_cuda(cudaDeviceSynchronize(), "running"); }

// `bytes` on the device, at an address `misalign` above a multiple of 256; poisoned first.
DeviceMemory poisoned(std::size_t bytes, std::size_t misalign) {
  DeviceMemory memory(bytes + misalign);
  memory.fill(static_cast<int>(poison));
  return memory;
}

template <typename Tensor, typename Call>
std::vector<Result> run_batch(const std::vector<Tensor>& tensors, std::uint64_t blocks,
                              const Setting& setting, Call call) {
  const auto count = static_cast<std::uint32_t>(tensors.size());
  DeviceMemory on_device(tensors.size() * sizeof(Tensor)), scratch(scratch_bytes(count, blocks));
  DeviceMemory results(tensors.size() * sizeof(Result), DeviceMemory::Place::pinned);
  on_device.write(tensors.data(), tensors.size() * sizeof(Tensor));
  scratch.fill(static_cast<int>(poison));
  const Batch<Tensor> batch{on_device.at<Tensor>(), count,          blocks, results.at<Result>(),
                            scratch.at<void>(),     scratch.bytes()};
  require_ok(call(batch, launch_of(setting), nullptr), "launching");
  synchronise();
  const Result* first = results.at<Result>();
  return {first, first + tensors.size()};
}

// What compress() is given, and where; the sources are not numbered.
struct SourceMemory {
  explicit SourceMemory(std::span<const Input> inputs) {
    for (const Input& input : inputs) {
      const std::size_t bytes = input.content.size();
      contents.push_back(poisoned(bytes, input.misalign));
      contents.back().write(input.content.data(), bytes, input.misalign);
      frames.push_back(poisoned(frame_bound(bytes, input.alignment_log2), 0));
      sources.push_back({contents.back().at(input.misalign), frames.back().at(), bytes, frames.back().bytes(),
                         0, input.codec, input.element, input.alignment_log2});
    }
  }
  std::vector<DeviceMemory> contents, frames;
  std::vector<Source> sources;
};

Bytes bytes_of(const DeviceMemory& memory, std::size_t bytes, std::size_t offset = 0) {
  Bytes result(bytes);
  memory.read(result.data(), bytes, offset);
  return result;
}

}  // namespace

const char* machine_name() {
  static cudaDeviceProp properties{};
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return "";
  return cudaGetDeviceProperties(&properties, 0) == cudaSuccess ? properties.name : "";
}

bool is_fast() { return true; }

std::vector<Output> compress_all(std::span<const Input> inputs, const Setting& setting) {
  SourceMemory memory(inputs);
  const std::uint64_t blocks = number_blocks(memory.sources);
  const std::vector<Result> results = run_batch(memory.sources, blocks, setting, compress);
  std::vector<Output> outputs;
  for (std::size_t i = 0; i < results.size(); ++i)
    outputs.push_back({results[i].error, bytes_of(memory.frames[i], results[i].bytes)});
  return outputs;
}

std::vector<Output> decompress_all(std::span<const Frame> given, const Setting& setting) {
  std::vector<DeviceMemory> contents, frames;
  std::vector<Target> targets;
  for (const Frame& frame : given) {
    frames.push_back(poisoned(frame.bytes.size(), 0));
    frames.back().write(frame.bytes.data(), frame.bytes.size());
    contents.push_back(poisoned(frame.content_bytes, frame.misalign));
    targets.push_back(
        {frames.back().at(), contents.back().at(frame.misalign), frame.bytes.size(), frame.content_bytes, 0});
  }
  const std::uint64_t blocks = number_blocks(targets);
  const std::vector<Result> results = run_batch(targets, blocks, setting, decompress);
  std::vector<Output> outputs;
  for (std::size_t i = 0; i < results.size(); ++i)
    outputs.push_back({results[i].error, bytes_of(contents[i], results[i].bytes, given[i].misalign)});
  return outputs;
}

std::vector<Output> compress_numbered(std::span<const Input> inputs,
                                      std::span<const std::uint64_t> first_blocks, std::uint64_t blocks) {
  SourceMemory memory(inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) memory.sources[i].first_block = first_blocks[i];
  const std::vector<Result> results = run_batch(memory.sources, blocks, {}, compress);
  std::vector<Output> outputs;
  for (std::size_t i = 0; i < results.size(); ++i)
    outputs.push_back({results[i].error, bytes_of(memory.frames[i], memory.frames[i].bytes())});
  return outputs;
}

std::vector<std::uint64_t> xxh3_of_prefixes(std::span<const std::byte> bytes,
                                            std::span<const std::uint32_t> lengths, const Setting& setting) {
  DeviceMemory data(bytes.size()), on_device(lengths.size_bytes()), results(lengths.size() * 8);
  data.write(bytes.data(), bytes.size());
  on_device.write(lengths.data(), lengths.size_bytes());
  checksum_kernel<<<static_cast<unsigned>(lengths.size()), setting.threads, sizeof(ChecksumShared)>>>(
      data.at<const u64>(), on_device.at<const u32>(), results.at<u64>());
  synchronise();
  std::vector<std::uint64_t> checksums(lengths.size());
  results.read(checksums.data(), results.bytes());
  return checksums;
}

Binarized relu_binarize_on(ElementType type, std::span<const std::byte> x) {
  const std::size_t elements = x.size() / width_of(type), words = (elements + 63) / 64;
  DeviceMemory from(x.size()), to = poisoned(x.size(), 0), mask = poisoned(words * 8, 0);
  from.write(x.data(), x.size());
  require_ok(relu_binarize(type, from.at(), to.at(), mask.at<std::uint64_t>(), elements, nullptr), "relu");
  synchronise();
  Binarized result{bytes_of(to, x.size()), std::vector<std::uint64_t>(words)};
  mask.read(result.mask.data(), words * 8);
  return result;
}

Bytes relu_backward_on(ElementType type, std::span<const std::uint64_t> mask, std::span<const std::byte> dy) {
  DeviceMemory words(mask.size_bytes()), from(dy.size()), to = poisoned(dy.size(), 0);
  words.write(mask.data(), mask.size_bytes());
  from.write(dy.data(), dy.size());
  require_ok(relu_backward(type, words.at<const std::uint64_t>(), from.at(), to.at(),
                           dy.size() / width_of(type), nullptr),
             "relu");
  synchronise();
  return bytes_of(to, dy.size());
}

}  // namespace terrace::compression::cuda::test
