// What the host looks at before a call's kernels are launched, and what it then tells them. Needs no CUDA, so
// that it is tested anywhere.
#pragma once

#include "compression/cuda/batch.cuh"

namespace terrace::compression::cuda {

inline bool is_scratch(const void* memory) {
  return memory != nullptr && reinterpret_cast<std::uintptr_t>(memory) % 16 == 0;
}

template <typename Tensor>
Status check_batch(const Batch<Tensor>& batch, const Launch& launch) {
  if (launch.compress_ctas == 0 || launch.decompress_ctas == 0) return Status::bad_geometry;
  if (batch.tensors == nullptr || batch.results == nullptr || batch.blocks >= 0xffffffff ||
      !is_scratch(batch.scratch))
    return Status::bad_batch;
  const std::size_t least = scratch_sizes(batch.count, batch.blocks).total();
  return batch.scratch_bytes < least ? Status::scratch_small : Status::ok;
}

template <typename Tensor>
Work<Tensor> work_of(const Batch<Tensor>& batch) {
  return {batch.tensors, batch.results, scratch_at(batch.scratch, batch.count, batch.blocks), batch.count,
          static_cast<u32>(batch.blocks)};
}

inline constexpr std::size_t lone_front_bytes =
    to_unit(sizeof(Lone<Source>) > sizeof(Lone<Target>) ? sizeof(Lone<Source>) : sizeof(Lone<Target>));

// The work on one tensor that comes with the call: its description, in front of the scratch memory, is
// written by the first kernel, its verdict by whoever finishes it, where the host reads it. So nothing is
// copied before or behind, which would queue for the link behind copies of whole tensors.
template <typename Tensor>
Status lone_work(const Tensor& tensor, const LoneMemory& memory, const Launch& launch, Work<Tensor>& work) {
  if (memory.verdict == nullptr || !is_scratch(memory.scratch)) return Status::bad_batch;
  if (memory.scratch_bytes < lone_front_bytes) return Status::scratch_small;
  auto* lone = static_cast<Lone<Tensor>*>(memory.scratch);
  const Batch<Tensor> batch{&lone->tensor,
                            1,
                            (tensor.content_bytes + block_bytes - 1) / block_bytes,
                            &memory.verdict->result,
                            static_cast<u8*>(memory.scratch) + lone_front_bytes,
                            memory.scratch_bytes - lone_front_bytes};
  if (const Status status = check_batch(batch, launch); status != Status::ok) return status;
  work = work_of(batch);
  work.timing = &lone->timing;
  return Status::ok;
}

}  // namespace terrace::compression::cuda
