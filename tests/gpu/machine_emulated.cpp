// The kernels on the emulator of tests/gpu/simt.
#include <algorithm>
#include <cstdlib>
#include <memory>

#include "compression/cuda/decode/decompress.cuh"
#include "compression/cuda/encode/compress.cuh"
#include "compression/cuda/relu.cuh"
#include "kernels.cuh"
#include "machine.h"

namespace terrace::compression::cuda::test {
namespace {

simt::Launch launch_of(const Setting& setting, std::uint32_t ctas, std::size_t shared_bytes) {
  return {ctas, setting.threads, shared_bytes, setting.resident_ctas, setting.seed};
}

// Exact sizes from the heap, so that AddressSanitizer sees every byte beyond. `offset` shifts the content's
// begin.
class Memory {
 public:
  explicit Memory(std::size_t bytes, std::size_t offset = 0) : offset_(offset), bytes_(bytes) {
    void* memory = nullptr;
    if (posix_memalign(&memory, 16, bytes + offset) != 0) std::abort();
    memory_.reset(static_cast<std::byte*>(memory));
    std::fill_n(memory_.get(), bytes + offset, poison);
  }
  std::byte* at() { return memory_.get() + offset_; }
  std::span<std::byte> bytes() { return {at(), bytes_}; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t offset_, bytes_;
};

Memory copy_of(std::span<const std::byte> bytes, std::size_t offset = 0) {
  Memory memory(bytes.size(), offset);
  std::copy(bytes.begin(), bytes.end(), memory.at());
  return memory;
}

// What compress() is given, and where; the sources are not numbered.
struct SourceMemory {
  explicit SourceMemory(std::span<const Input> inputs) {
    for (const Input& input : inputs) {
      contents.push_back(copy_of(input.content, input.misalign));
      frames.emplace_back(frame_bound(input.content.size(), input.alignment_log2));
      sources.push_back({.content = contents.back().at(),
                         .frame = frames.back().at(),
                         .content_bytes = input.content.size(),
                         .frame_capacity = frames.back().bytes().size(),
                         .codec = input.codec,
                         .element = input.element,
                         .alignment_log2 = input.alignment_log2});
    }
  }
  std::vector<Memory> contents, frames;
  std::vector<Source> sources;
};

// Runs the two kernels of a call.
template <typename Tensor, typename Prepare, typename Main>
std::vector<Result> run_batch(const std::vector<Tensor>& tensors, std::uint64_t blocks,
                              const Setting& setting, Prepare prepare, Main main, std::size_t prepare_bytes,
                              std::size_t main_bytes) {
  std::vector<Result> results(tensors.size(), Result{77, FrameError::truncated});
  const auto count = static_cast<std::uint32_t>(tensors.size());
  Memory scratch(scratch_sizes(count, blocks).total());
  const Work<Tensor> work{tensors.data(), results.data(), scratch_at(scratch.at(), count, blocks), count,
                          static_cast<std::uint32_t>(blocks)};
  simt::run(launch_of(setting, std::min(count, 4U), prepare_bytes), [&] { prepare(work); });
  simt::run(launch_of(setting, 4, main_bytes), [&] { main(work); });
  return results;
}

std::vector<Result> run_compress(const std::vector<Source>& sources, std::uint64_t blocks,
                                 const Setting& setting) {
  return run_batch(
      sources, blocks, setting, [](const auto& work) { prepare_compress(work); },
      [](const auto& work) { compress_blocks(work); }, 0, sizeof(EncodeShared));
}

u8* bytes_at(Memory& memory) { return static_cast<u8*>(static_cast<void*>(memory.at())); }

template <typename Work>
void run_relu(ElementType type, const Work& work) {
  const simt::Launch launch{.ctas = 2, .threads = 64, .resident_ctas = 2, .seed = 1};
  switch (width_of(type)) {
    case 1:
      return simt::run(launch, [&] { work.template operator()<u8>(); });
    case 2:
      return simt::run(launch, [&] { work.template operator()<u16>(); });
    case 4:
      return simt::run(launch, [&] { work.template operator()<u32>(); });
    default:
      return simt::run(launch, [&] { work.template operator()<u64>(); });
  }
}

}  // namespace

const char* machine_name() { return "emulator"; }
bool is_fast() { return false; }

std::vector<Output> compress_all(std::span<const Input> inputs, const Setting& setting) {
  SourceMemory memory(inputs);
  const std::uint64_t blocks = number_blocks(memory.sources);
  const std::vector<Result> results = run_compress(memory.sources, blocks, setting);
  std::vector<Output> outputs;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto frame = memory.frames[i].bytes().first(results[i].bytes);
    outputs.push_back({results[i].error, Bytes(frame.begin(), frame.end())});
  }
  return outputs;
}

std::vector<Output> decompress_all(std::span<const Frame> given, const Setting& setting) {
  std::vector<Memory> contents, frames;
  std::vector<Target> targets;
  for (const Frame& frame : given) {
    frames.push_back(copy_of(frame.bytes));
    contents.emplace_back(frame.content_bytes, frame.misalign);
    targets.push_back({.frame = frames.back().at(),
                       .content = contents.back().at(),
                       .frame_bytes = frame.bytes.size(),
                       .content_bytes = frame.content_bytes});
  }
  const std::uint64_t blocks = number_blocks(targets);
  const std::vector<Result> results = run_batch(
      targets, blocks, setting, [](const auto& work) { prepare_decompress(work); },
      [](const auto& work) { decompress_blocks(work); }, sizeof(CheckShared), sizeof(DecodeShared));
  std::vector<Output> outputs;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto content = contents[i].bytes().first(results[i].bytes);
    outputs.push_back({results[i].error, Bytes(content.begin(), content.end())});
  }
  return outputs;
}

std::vector<Output> compress_numbered(std::span<const Input> inputs,
                                      std::span<const std::uint64_t> first_blocks, std::uint64_t blocks) {
  SourceMemory memory(inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) memory.sources[i].first_block = first_blocks[i];
  const std::vector<Result> results = run_compress(memory.sources, blocks, {});
  std::vector<Output> outputs;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto room = memory.frames[i].bytes();
    outputs.push_back({results[i].error, Bytes(room.begin(), room.end())});
  }
  return outputs;
}

std::vector<std::uint64_t> xxh3_of_prefixes(std::span<const std::byte> bytes,
                                            std::span<const std::uint32_t> lengths, const Setting& setting) {
  Memory memory = copy_of(bytes);
  const SharedWords words{static_cast<const u64*>(static_cast<const void*>(memory.at()))};
  std::vector<std::uint64_t> results(lengths.size());
  simt::run(launch_of(setting, static_cast<std::uint32_t>(lengths.size()), sizeof(ChecksumShared)),
            [&] { checksum_prefix(words, lengths[simt::cta_index()], &results[simt::cta_index()]); });
  return results;
}

Binarized relu_binarize_on(ElementType type, std::span<const std::byte> x) {
  Memory from = copy_of(x), to(x.size());
  const std::size_t words = (x.size() / width_of(type) + 63) / 64;
  Binarized result{{}, std::vector<std::uint64_t>(words, 77)};
  const ReluWork work{bytes_at(from), bytes_at(to), static_cast<u32*>(static_cast<void*>(result.mask.data())),
                      x.size(), negative_infinity_of(type)};
  run_relu(type, [&]<typename T>() { relu_forward<T>(work); });
  result.y.assign(to.bytes().begin(), to.bytes().end());
  return result;
}

Bytes relu_backward_on(ElementType type, std::span<const std::uint64_t> mask, std::span<const std::byte> dy) {
  Memory from = copy_of(dy), to(dy.size());
  std::vector<std::uint64_t> words(mask.begin(), mask.end());
  const ReluWork work{bytes_at(from), bytes_at(to), static_cast<u32*>(static_cast<void*>(words.data())),
                      dy.size(), 0};
  run_relu(type, [&]<typename T>() { relu_backward<T>(work); });
  return {to.bytes().begin(), to.bytes().end()};
}

}  // namespace terrace::compression::cuda::test
