// A batch on the device: what lies in the caller's scratch memory, and which tensor a block belongs to.
//
// The tensors' blocks are numbered through the whole batch, so that CTAs take blocks, not tensors: one launch
// keeps the device busy with a thousand small tensors as with one large. The first kernel of a call
// (`prepare`) fills the scratch memory; the second works through the blocks.
#pragma once

#include "compression/cuda/compression_cuda.h"
#include "compression/cuda/simt.cuh"

namespace terrace::compression::cuda {

// An entry of a frame's table, as stored.
struct alignas(16) StoredEntry {
  u64 checksum;
  u32 offset_units;
  u32 kind_and_bytes;
};
static_assert(sizeof(StoredEntry) == entry_bytes && sizeof(Vector) == payload_unit);

// Of a tensor. `error` is a FrameError.
struct TensorState {
  u32 error;
  u32 blocks_done;
  u64 payload_offset;
  u64 payload_bytes;  // decompress only
  u32 codec, element;
};

struct BatchState {
  u32 next_block;  // which block the next CTA takes
  u32 misnumbered;
  u32 has_empty;  // a tensor without content is among them
  u32 padding;
};

// Scratch memory, one array behind the other.
struct Scratch {
  BatchState* batch;
  TensorState* tensors;
  u32* owner;            // of block i of the batch: its tensor
  u64* progress;         // compress: look_back.cuh
  StoredEntry* entries;  // compress: the tables
};

constexpr std::size_t to_unit(std::size_t bytes) { return (bytes + 15) / 16 * 16; }

struct ScratchSizes {
  std::size_t batch, tensors, owner, progress, entries;
  constexpr std::size_t total() const { return batch + tensors + owner + progress + entries; }
};

constexpr ScratchSizes scratch_sizes(u32 tensors, u64 blocks) {
  return {sizeof(BatchState), to_unit(tensors * sizeof(TensorState)), to_unit(blocks * sizeof(u32)),
          to_unit(blocks * sizeof(u64)), blocks * sizeof(StoredEntry)};
}

inline Scratch scratch_at(void* memory, u32 tensors, u64 blocks) {
  const ScratchSizes sizes = scratch_sizes(tensors, blocks);
  auto* at = static_cast<u8*>(memory);
  Scratch scratch{};
  scratch.batch = static_cast<BatchState*>(static_cast<void*>(at));
  scratch.tensors = static_cast<TensorState*>(static_cast<void*>(at += sizes.batch));
  scratch.owner = static_cast<u32*>(static_cast<void*>(at += sizes.tensors));
  scratch.progress = static_cast<u64*>(static_cast<void*>(at += sizes.owner));
  scratch.entries = static_cast<StoredEntry*>(static_cast<void*>(at + sizes.progress));
  return scratch;
}

// Of a call for one tensor that the host describes: its time is told with its result.
struct Timing {
  u64 begun_ns;
  u64* ns;
};

// Such a tensor, in front of the call's own scratch memory.
template <typename Tensor>
struct alignas(16) Lone {
  Tensor tensor;
  Timing timing;
};

// What a kernel is called with.
template <typename Tensor>
struct Work {
  const Tensor* tensors;
  Result* results;
  Scratch scratch;
  u32 count;
  u32 blocks;
  const Timing* timing = nullptr;  // none for a batch
};

// By one thread: what became of tensor i.
template <typename Tensor>
TERRACE_DEVICE void report(const Work<Tensor>& work, u32 i, const Result& result) {
  work.results[i] = result;
  if (work.timing != nullptr) *work.timing->ns = simt::device_ns() - work.timing->begun_ns;
}

// By the only CTA of a lone tensor's first kernel, before anything reads the description.
template <typename Tensor>
TERRACE_DEVICE void begin_lone(const Tensor& tensor, Lone<Tensor>& lone, u64* ns) {
  if (simt::thread_index() == 0) {
    lone.tensor = tensor;
    lone.timing = {simt::device_ns(), ns};
  }
  simt::sync_cta();
}

TERRACE_DEVICE u32 blocks_of(u64 content_bytes) {
  return static_cast<u32>((content_bytes + block_bytes - 1) / block_bytes);
}
TERRACE_DEVICE u32 content_of_block(u64 content_bytes, u32 block) {
  const u64 left = content_bytes - u64{block} * block_bytes;
  return static_cast<u32>(left < block_bytes ? left : block_bytes);
}
TERRACE_DEVICE u32 width_of_type(u32 element) {
  // 1, 2, 4, 8 bytes as two bits each of their log2: u8, u16, u32, u64, f8e4m3, f8e5m2, f16, bf16, f32, f64.
  return 1U << (0xe50e4U >> (2 * element) & 3U);
}
TERRACE_DEVICE u64 payload_offset_of(u32 blocks, u32 alignment_log2) {
  const u64 unit = u64{1} << alignment_log2;
  return (header_bytes + u64{blocks} * entry_bytes + unit - 1) / unit * unit;
}

// The blocks that a tensor takes in the batch's numbering; one that is too large is refused and takes none.
template <typename Tensor>
TERRACE_DEVICE u32 claimed_blocks(const Tensor& tensor) {
  return tensor.content_bytes > max_content_bytes ? 0 : blocks_of(tensor.content_bytes);
}

// Whether tensor i's blocks follow those of the one before: only if all do, no two tensors share a block.
template <typename Tensor>
TERRACE_DEVICE bool is_numbered(const Work<Tensor>& work, u32 i) {
  const Tensor& tensor = work.tensors[i];
  u64 expected = 0;
  if (i > 0) expected = work.tensors[i - 1].first_block + claimed_blocks(work.tensors[i - 1]);
  const u64 end = expected + claimed_blocks(tensor);
  return tensor.first_block == expected && (i + 1 < work.count ? end <= work.blocks : end == work.blocks);
}

// By the first CTA: checks the whole batch and lets block 0 be the next one.
template <typename Tensor>
TERRACE_DEVICE void begin_batch(const Work<Tensor>& work) {
  bool numbered = true, filled = true;
  for (u32 i = simt::thread_index(); i < work.count; i += simt::thread_count()) {
    numbered = numbered && is_numbered(work, i);
    filled = filled && work.tensors[i].content_bytes != 0;
  }
  numbered = simt::all_in_cta(numbered);
  filled = simt::all_in_cta(filled);
  if (simt::thread_index() == 0) *work.scratch.batch = {0, numbered ? 0U : 1U, filled ? 0U : 1U, 0};
}

// By one CTA: tells tensor i's blocks whose they are. Returns how many there are.
template <typename Tensor>
TERRACE_DEVICE u32 claim_blocks(const Work<Tensor>& work, u32 i) {
  if (!is_numbered(work, i)) return 0;
  const u32 blocks = claimed_blocks(work.tensors[i]), first = static_cast<u32>(work.tensors[i].first_block);
  for (u32 k = simt::thread_index(); k < blocks; k += simt::thread_count()) work.scratch.owner[first + k] = i;
  return blocks;
}

// By all threads of the second kernel, before they take blocks. False: nothing is to be done.
template <typename Tensor>
TERRACE_DEVICE bool is_sound(const Work<Tensor>& work) {
  if (work.scratch.batch->misnumbered == 0) return true;
  const u32 thread = simt::cta_index() * simt::thread_count() + simt::thread_index();
  for (u32 i = thread; i < work.count; i += simt::cta_count() * simt::thread_count())
    report(work, i, {0, FrameError::bad_argument});
  return false;
}

// The next block that no CTA has taken, or something at or above the batch's blocks. `mailbox` is a word of
// shared memory that nothing else uses. CTAs take blocks in order, so one that waits for the blocks before
// its own waits for CTAs that run.
TERRACE_DEVICE u32 take_block(BatchState& batch, u32* mailbox) {
  simt::sync_cta();  // all have read the mailbox's last value, and what else is in shared memory
  if (simt::thread_index() == 0) *mailbox = simt::atomic_add(&batch.next_block, 1);
  simt::sync_cta();
  return *mailbox;
}

// Counts a block as done, after everything that the CTA wrote for it. True for the tensor's last one, in all
// threads, which then see what the other CTAs wrote.
TERRACE_DEVICE bool finish_block(TensorState& tensor, u32 blocks, u32* mailbox) {
  simt::sync_cta();
  if (simt::thread_index() == 0) {
    simt::fence();
    *mailbox = simt::atomic_add(&tensor.blocks_done, 1);
    simt::fence();
  }
  simt::sync_cta();
  return *mailbox == blocks - 1;
}

}  // namespace terrace::compression::cuda
