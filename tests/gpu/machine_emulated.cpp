// The kernels on the emulator of tests/gpu/simt.
#include <algorithm>
#include <cstdlib>
#include <memory>

#include "compression/cuda/compress.cuh"
#include "compression/cuda/decompress.cuh"
#include "machine.h"

namespace terrace::compression::cuda::test {
namespace {

simt::Launch launch_of(const Setting& setting, std::uint32_t ctas, std::size_t shared_bytes) {
  return {ctas, setting.threads, shared_bytes, setting.resident_ctas, setting.seed};
}

// Exact sizes from the heap, so that AddressSanitizer sees every byte beyond. `offset` shifts the content's begin.
class Memory {
 public:
  explicit Memory(std::size_t bytes, std::size_t offset = 0) : offset_(offset), bytes_(bytes) {
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(16, (bytes + offset + 15) / 16 * 16)));
    std::fill_n(memory_.get(), bytes + offset, std::byte{0xcd});
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

// Runs the two kernels of a call.
template <typename Tensor, typename Prepare, typename Main>
std::vector<Result> run_batch(const std::vector<Tensor>& tensors, std::uint64_t blocks, const Setting& setting,
                              Prepare prepare, Main main, std::size_t prepare_bytes, std::size_t main_bytes) {
  std::vector<Result> results(tensors.size(), Result{77, FrameError::truncated});
  const auto count = static_cast<std::uint32_t>(tensors.size());
  Memory scratch(scratch_sizes(count, blocks).total());
  const Work<Tensor> work{tensors.data(), results.data(), scratch_at(scratch.at(), count, blocks), count,
                          static_cast<std::uint32_t>(blocks)};
  simt::run(launch_of(setting, std::min(count, 4U), prepare_bytes), [&] { prepare(work); });
  simt::run(launch_of(setting, 4, main_bytes), [&] { main(work); });
  return results;
}

std::vector<Result> run_compress(const std::vector<Source>& sources, std::uint64_t blocks, const Setting& setting) {
  return run_batch(
      sources, blocks, setting, [](const auto& work) { prepare_compress(work); },
      [](const auto& work) { compress_blocks(work); }, sizeof(PrepareShared), sizeof(EncodeShared));
}

}  // namespace

const char* machine_name() { return "emulator"; }
bool is_fast() { return false; }

std::vector<Output> compress_all(std::span<const Input> inputs, const Setting& setting) {
  std::vector<Memory> contents, frames;
  std::vector<Source> sources;
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
  const std::uint64_t blocks = number_blocks(sources);
  const std::vector<Result> results = run_compress(sources, blocks, setting);
  std::vector<Output> outputs;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto frame = frames[i].bytes().first(results[i].bytes);
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

std::vector<Result> compress_sources(std::vector<Source> sources, std::uint64_t blocks) {
  return run_compress(sources, blocks, {});
}

std::uint64_t xxh3_of(std::span<const std::byte> bytes, const Setting& setting) {
  const Memory memory = copy_of(bytes);
  std::uint64_t result = 0;
  simt::run(launch_of(setting, 1, sizeof(PrepareShared)), [&] {
    auto& shared = *reinterpret_cast<PrepareShared*>(simt::shared_memory());
    load_secret(shared.secret);
    simt::sync_cta();
    Memory& data = const_cast<Memory&>(memory);
    const SharedWords words{static_cast<const u64*>(static_cast<const void*>(data.at()))};
    const u64 checksum = xxh3(words, static_cast<u32>(bytes.size()), shared.secret, shared.sums);
    if (simt::thread_index() == 0) result = checksum;
  });
  return result;
}

}  // namespace terrace::compression::cuda::test
