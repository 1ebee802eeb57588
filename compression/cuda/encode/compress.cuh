// The two kernels of compress(): prepare_compress looks at the tensors and numbers the blocks' owners,
// compress_blocks does all the rest in one pass over the content:
//
//   take a block ─ read ─ mask ─ decide ─► size published ─ pack ─ sums ─┬ warp 0: checksum  ┬─ write
//                                                                        └ warp 1: look-back ┘
//
// The size is known from the mask alone, so the blocks behind wait for no packing. Whoever finishes a
// tensor's last block writes the tensor's table and header.
#pragma once

#include "compression/cuda/encode/encode_block.cuh"
#include "compression/cuda/encode/finish_frame.cuh"
#include "compression/cuda/encode/look_back.cuh"

namespace terrace::compression::cuda {

// The same checks in the same order as compress() of compressor.h, and those of addresses.
TERRACE_DEVICE FrameError check_source(const Source& source) {
  const u32 element = static_cast<u32>(source.element);
  if (element >= element_type_count || source.alignment_log2 < 4 || source.alignment_log2 > 21)
    return FrameError::bad_argument;
  const u32 width = width_of_type(element);
  if (source.content_bytes > max_content_bytes || source.content_bytes % width != 0)
    return FrameError::bad_argument;
  if (!is_aligned16(source.frame) || reinterpret_cast<std::uintptr_t>(source.content) % width != 0)
    return FrameError::bad_argument;
  const u64 offset = payload_offset_of(blocks_of(source.content_bytes), source.alignment_log2);
  if (source.frame_capacity < offset + source.content_bytes) return FrameError::too_small;
  return source.codec <= Codec::csr8 ? FrameError::none : FrameError::codec_missing;
}

// By one CTA: a tensor's state, its blocks' owner and progress.
TERRACE_DEVICE void prepare_source(const Work<Source>& work, u32 i) {
  const Source& source = work.tensors[i];
  const FrameError error = check_source(source);
  const u32 blocks = claim_blocks(work, i);
  for (u32 k = simt::thread_index(); k < blocks; k += simt::thread_count())
    work.scratch.progress[source.first_block + k] = 0;
  if (simt::thread_index() == 0) {
    const u64 offset = error == FrameError::none ? payload_offset_of(blocks, source.alignment_log2) : 0;
    work.scratch.tensors[i] = {static_cast<u32>(error), 0, offset, 0, 0, 0};
    if (error != FrameError::none) report(work, i, {0, error});
  }
}

TERRACE_DEVICE void prepare_compress(const Work<Source>& work) {
  if (simt::cta_index() == 0) begin_batch(work);
  for (u32 i = simt::cta_index(); i < work.count; i += simt::cta_count()) prepare_source(work, i);
}

// Which block of which tensor a CTA works on.
struct Place {
  u32 tensor, block, first;  // both blocks in the batch's numbering
};

// Shared memory to the frame, a warp's stores in whole lines of 128 bytes but for the ends: lines that are
// written in parts cost twice on the way to the host.
TERRACE_DEVICE void write_extent(u8* to, const u8* from, u32 bytes) {
  const u32 into_line = static_cast<u32>(reinterpret_cast<std::uintptr_t>(to) / 16 % 8),
            t = simt::thread_index();
  auto* vectors = reinterpret_cast<Vector*>(to);
  const auto* in = reinterpret_cast<const Vector*>(from);
  TERRACE_UNROLL_BY(4)
  for (u32 i = t >= into_line ? t - into_line : t - into_line + simt::thread_count(); i < bytes / 16;
       i += simt::thread_count())
    vectors[i] = in[i];
  for (u32 i = bytes / 16 * 16 + simt::thread_index(); i < bytes; i += simt::thread_count()) to[i] = from[i];
}

// Whether a CTA takes its next block before it is done with this one. Not near a tensor's end, where the CTA
// may come to finish the tensor: all who have to know the size of the block that it holds would wait for the
// table, too.
TERRACE_DEVICE bool takes_ahead(const Work<Source>& work, const Place& place) {
  const u32 last = place.first + blocks_of(work.tensors[place.tensor].content_bytes) - 1;
  return last - place.block > simt::cta_count();
}

// By one warp, while others finish a block: the CTA's next block, and its content on the way into the
// second-level cache. Blocks are still taken in order, and a CTA finishes one before it begins the next; so
// the first block whose size is not known is one that its CTA comes to without waiting for others.
TERRACE_DEVICE void take_next_block(const Work<Source>& work, u32* mailbox) {
  constexpr u32 line_bytes = 128;
  u32 next = 0;
  if (lane_index() == 0) next = *mailbox = simt::atomic_add(&work.scratch.batch->next_block, 1);
  next = simt::shuffle(next, 0);
  if (next >= work.blocks) return;
  const u32 tensor = work.scratch.owner[next];
  if (work.scratch.tensors[tensor].error != static_cast<u32>(FrameError::none)) return;
  const Source& source = work.tensors[tensor];
  const u32 block = next - static_cast<u32>(source.first_block);
  const u8* content = static_cast<const u8*>(source.content) + u64{block} * block_bytes;
  const u32 bytes = content_of_block(source.content_bytes, block);
  for (u32 at = lane_index() * line_bytes; at < bytes; at += warp_lanes * line_bytes)
    simt::prefetch(content + at);
}

// The checksum by the first warp while the second looks back and the third may take the next block; then
// the entry, and the extent to its place.
TERRACE_DEVICE void place_extent(const Work<Source>& work, const Place& place, const Extent& extent,
                                 EncodeShared& shared) {
  u8* data = shared.buffer + extent.begin;
  const SharedWords words{in_shared<const u64>(data)};
  u64* sums = in_shared<u64>(shared.buffer + extent.sums);
  if (extent.kind != BlockKind::zero) sums_for_xxh3(words, extent.extent, shared.secret, sums);
  simt::sync_cta();
  u64* meeting = shared.summary;  // of the two warps
  if (warp_index() == 0) {
    const bool is_zero = extent.kind == BlockKind::zero;
    const u64 checksum = is_zero ? 0 : xxh3_from_sums(words, extent.extent, shared.secret, sums);
    if (lane_index() == 0) meeting[0] = checksum;
  } else if (warp_index() == 1) {
    const u64 units = look_back(work.scratch.progress, place.block, place.first, extent.units());
    if (lane_index() == 0) meeting[1] = units;
  } else if (warp_index() == 2 && takes_ahead(work, place)) {
    take_next_block(work, shared.mailbox);
  }
  simt::sync_cta();
  const u64 offset = work.scratch.tensors[place.tensor].payload_offset + meeting[1] * payload_unit;
  write_extent(static_cast<u8*>(work.tensors[place.tensor].frame) + offset, data, extent.extent);
  if (simt::thread_index() == 0)
    work.scratch.entries[place.block] = {meeting[0], static_cast<u32>(meeting[1]),
                                         static_cast<u32>(extent.kind) << 24 | extent.bytes};
}

template <typename T>
TERRACE_DEVICE void compress_block(const Work<Source>& work, const Place& place, EncodeShared& shared) {
  const Source& source = work.tensors[place.tensor];
  const u32 block = place.block - place.first, bytes = content_of_block(source.content_bytes, block);
  Encoder<T> encoder{shared, static_cast<u32>(source.element), bytes / static_cast<u32>(sizeof(T)), {}, {}};
  read_block(encoder.content(), static_cast<const u8*>(source.content) + u64{block} * block_bytes, bytes);
  encoder.scan = scan_mask(in_shared<const T>(encoder.content()), encoder.elements,
                           in_shared<u64>(encoder.front()), shared.base, encoder.of_warp());
  const Extent extent = decide(encoder, source.codec);
  if (simt::thread_index() == 0)
    publish_size(work.scratch.progress, place.block, place.first, extent.units());
  simt::sync_cta();
  if (extent.kind == BlockKind::coded || extent.kind == BlockKind::sparse)
    write_coded(encoder, extent, source.codec);
  simt::sync_cta();
  place_extent(work, place, extent, shared);
}

TERRACE_DEVICE void compress_block_of_any_width(const Work<Source>& work, const Place& place,
                                                EncodeShared& shared) {
  switch (width_of_type(static_cast<u32>(work.tensors[place.tensor].element))) {
    case 1:
      return compress_block<u8>(work, place, shared);
    case 2:
      return compress_block<u16>(work, place, shared);
    case 4:
      return compress_block<u32>(work, place, shared);
    default:
      return compress_block<u64>(work, place, shared);
  }
}

// Tensors without blocks, which nobody takes. Not while they are prepared: a batch is known to be sound only
// now.
TERRACE_DEVICE void finish_empty_frames(const Work<Source>& work, EncodeShared& shared) {
  u64* memory = in_shared<u64>(shared.buffer);
  for (u32 i = simt::cta_index(); i < work.count; i += simt::cta_count()) {
    if (work.tensors[i].content_bytes != 0) continue;
    if (work.scratch.tensors[i].error != static_cast<u32>(FrameError::none)) continue;
    simt::sync_cta();  // the secret is there, and all have done with the frame before
    finish_frame(work, i, shared.secret, memory, memory + sum_words);
  }
}

TERRACE_DEVICE void compress_blocks(const Work<Source>& work) {
  auto& shared = *reinterpret_cast<EncodeShared*>(simt::shared_memory());
  if (!is_sound(work)) return;
  load_secret(shared.secret);
  if (work.scratch.batch->has_empty != 0) finish_empty_frames(work, shared);
  u32 block = take_block(*work.scratch.batch, shared.mailbox);
  while (block < work.blocks) {
    const u32 tensor = work.scratch.owner[block];
    TensorState& state = work.scratch.tensors[tensor];
    if (state.error != static_cast<u32>(FrameError::none)) {
      block = take_block(*work.scratch.batch, shared.mailbox);
      continue;
    }
    const Place place{tensor, block, static_cast<u32>(work.tensors[tensor].first_block)};
    compress_block_of_any_width(work, place, shared);
    const u32 next = shared.mailbox[0];  // take_next_block()
    if (finish_block(state, blocks_of(work.tensors[tensor].content_bytes), &shared.mailbox[1])) {
      u64* memory = in_shared<u64>(shared.buffer);
      finish_frame(work, tensor, shared.secret, memory, memory + sum_words);
      simt::sync_cta();  // the next block goes over the table's sums
    }
    block = takes_ahead(work, place) ? next : take_block(*work.scratch.batch, shared.mailbox);
  }
}

}  // namespace terrace::compression::cuda
