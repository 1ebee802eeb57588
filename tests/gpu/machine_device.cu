// The kernels on a GPU.
#include <algorithm>
#include <memory>
#include <stdexcept>

#include "kernels.cuh"
#include "machine.h"
#include "tools/bench/device/device_memory.h"

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

// Many pieces in one allocation that is kept from batch to batch: a million small frames with two allocations
// each would spend their time there. Between the pieces lies poison, and whatever changes but what a call may
// write to is an error. Where a call reads is not seen; a batch of few pieces has an allocation for each,
// whose ends memcheck knows.
class Shelf {
 public:
  void clear() { image_.clear(); }
  // Returns where the bytes lie; behind them is poison up to `room`.
  std::size_t put(std::span<const std::byte> bytes, std::size_t room, std::size_t misalign = 0) {
    const std::size_t at = (image_.size() + wall + 255) / 256 * 256 + misalign;
    image_.resize(at + room, poison);
    std::copy(bytes.begin(), bytes.end(), image_.begin() + static_cast<std::ptrdiff_t>(at));
    return at;
  }
  // After all are put: they may move until then.
  void load() {
    image_.resize(image_.size() + wall, poison);
    if (!memory_ || memory_->bytes() < image_.size())
      memory_ = std::make_unique<DeviceMemory>(2 * image_.size());
    memory_->write(image_.data(), image_.size());
  }
  std::byte* at(std::size_t offset) { return memory_->at(offset); }

  void read_back() { after_ = bytes_of(*memory_, image_.size()); }
  // What the call may have written to.
  std::span<const std::byte> written(std::size_t at, std::size_t room) {
    const auto begin = after_.begin() + static_cast<std::ptrdiff_t>(at);
    std::copy_n(begin, room, image_.begin() + static_cast<std::ptrdiff_t>(at));
    return {after_.data() + at, room};
  }
  // After written() of all.
  void require_rest_untouched() const {
    if (image_ != after_) throw std::runtime_error("a byte out of place was written");
  }

 private:
  static constexpr std::size_t wall = 256;
  Bytes image_, after_;
  std::unique_ptr<DeviceMemory> memory_;
};

struct Shelved {
  std::size_t frame, content;
};

std::vector<Output> decompress_many(std::span<const Frame> given, const Setting& setting) {
  static auto& shelf = *new Shelf;  // never freed: the runtime may end before static objects do
  shelf.clear();
  std::vector<Shelved> places;
  for (const Frame& frame : given) {
    const std::size_t at = shelf.put(frame.bytes, frame.bytes.size());
    places.push_back({at, shelf.put({}, frame.content_bytes, frame.misalign)});
  }
  shelf.load();
  std::vector<Target> targets;
  for (std::size_t i = 0; i < given.size(); ++i)
    targets.push_back({shelf.at(places[i].frame), shelf.at(places[i].content), given[i].bytes.size(),
                       given[i].content_bytes, 0});
  const std::uint64_t blocks = number_blocks(targets);
  const std::vector<Result> results = run_batch(targets, blocks, setting, decompress);
  shelf.read_back();
  std::vector<Output> outputs;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto content = shelf.written(places[i].content, given[i].content_bytes).first(results[i].bytes);
    outputs.push_back({results[i].error, Bytes(content.begin(), content.end())});
  }
  shelf.require_rest_untouched();
  return outputs;
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
  constexpr std::size_t few = 64;
  if (given.size() > few) return decompress_many(given, setting);
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
