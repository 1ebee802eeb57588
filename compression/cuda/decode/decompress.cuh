// The two kernels of decompress(): prepare_decompress checks each frame's header and table, decompress_blocks
// decodes the blocks of all frames that are sound. A frame's result is written by whoever finishes its last
// block.
#pragma once

#include "compression/cuda/decode/csr8_decode.cuh"
#include "compression/cuda/decode/rle_decode.cuh"

namespace terrace::compression::cuda {

// By one CTA.
TERRACE_DEVICE void prepare_target(const Work<Target>& work, u32 i, CheckShared& shared) {
  const Target& target = work.tensors[i];
  const FrameError error = check_frame(target, shared);
  claim_blocks(work, i);
  if (simt::thread_index() == 0) {
    const HeaderWords header{shared.header};
    TensorState state{static_cast<u32>(error), 0, 0, 0, 0, 0};
    if (error == FrameError::none)
      state = {0, 0, header.payload_offset(), header.payload_bytes(), header.codec(), header.element()};
    work.scratch.tensors[i] = state;
    if (error != FrameError::none || target.content_bytes == 0) report(work, i, {0, error});
  }
  simt::sync_cta();
}

TERRACE_DEVICE void prepare_decompress(const Work<Target>& work) {
  auto& shared = *reinterpret_cast<CheckShared*>(simt::shared_memory());
  load_secret(shared.secret);
  simt::sync_cta();
  if (simt::cta_index() == 0) begin_batch(work);
  for (u32 i = simt::cta_index(); i < work.count; i += simt::cta_count()) prepare_target(work, i, shared);
}

// The block's mask, in whichever way the codec writes it. Returns the bytes read, 0 where they are wrong.
TERRACE_DEVICE u32 read_mask_of(DecodeShared& shared, u32 codec, const EntryView& entry, u32 elements) {
  switch (codec) {
    case static_cast<u32>(Codec::rle):
      return read_pairs(shared, entry.bytes(), elements);
    case static_cast<u32>(Codec::csr8):
      return read_rows(shared, entry.bytes(), elements);
    default:
      return read_mask(shared, entry.is(BlockKind::sparse), entry.bytes(), elements);
  }
}

template <typename T>
TERRACE_DEVICE bool decode_coded(DecodeShared& shared, const TensorState& state, const EntryView& entry,
                                 const Destination& to) {
  const u32 elements = to.bytes / static_cast<u32>(sizeof(T));
  const u32 mask_bytes = read_mask_of(shared, state.codec, entry, elements);
  if (mask_bytes == 0) return false;
  return state.codec == static_cast<u32>(Codec::zvc_exp)
             ? decode_zvc_exp<T>(shared, state.element, mask_bytes, entry.bytes(), to)
             : decode_values<T>(shared, mask_bytes, entry.bytes(), to);
}

TERRACE_DEVICE bool decode_coded_of_any_width(DecodeShared& shared, const TensorState& state,
                                              const EntryView& entry, const Destination& to) {
  switch (width_of_type(state.element)) {
    case 1:
      return decode_coded<u8>(shared, state, entry, to);
    case 2:
      return decode_coded<u16>(shared, state, entry, to);
    case 4:
      return decode_coded<u32>(shared, state, entry, to);
    default:
      return decode_coded<u64>(shared, state, entry, to);
  }
}

// An extent that is in shared memory and has its checksum.
TERRACE_DEVICE bool decode_extent(DecodeShared& shared, const TensorState& state, const EntryView& entry,
                                  const Destination& to) {
  if (entry.is(BlockKind::repeat)) return decode_repeat(shared, width_of_type(state.element), to);
  if (!entry.is(BlockKind::raw))
    return is_padding_zero(shared, entry.bytes()) && decode_coded_of_any_width(shared, state, entry, to);
  const auto* vectors = reinterpret_cast<const Vector*>(shared.extent);
  write_content(to, [&](u32 i) { return vectors[i]; });
  return true;
}

// By one thread for all: where the frame's memory changes under way, they still agree on what they read.
TERRACE_DEVICE EntryView read_entry(const u8* frame, u32 block, DecodeShared& shared) {
  if (simt::thread_index() == 0)
    shared.entry = reinterpret_cast<const StoredEntry*>(frame + header_bytes)[block];
  simt::sync_cta();
  return {shared.entry};
}

// The entry was checked with the table, but is checked again, for the same reason.
TERRACE_DEVICE bool decode_block(const Target& target, const TensorState& state, u32 block,
                                 DecodeShared& shared) {
  const auto* frame = static_cast<const u8*>(target.frame);
  const EntryView entry = read_entry(frame, block, shared);
  const Destination to{static_cast<u8*>(target.content) + u64{block} * block_bytes,
                       content_of_block(target.content_bytes, block)};
  if (entry.offset() + entry.extent() > state.payload_bytes || !is_kind_sound(entry, state.codec, to.bytes))
    return false;
  if (entry.is(BlockKind::zero)) {
    write_content(to, [](u32) { return Vector{0, 0}; });
    return true;
  }
  read_extent(frame + state.payload_offset + entry.offset(), entry.extent(), shared.extent);
  return has_checksum(entry.extent(), entry.stored.checksum, shared) &&
         decode_extent(shared, state, entry, to);
}

TERRACE_DEVICE void decompress_blocks(const Work<Target>& work) {
  auto& shared = *reinterpret_cast<DecodeShared*>(simt::shared_memory());
  if (!is_sound(work)) return;
  load_secret(shared.secret);
  for (u32 block = take_block(*work.scratch.batch, shared.mailbox); block < work.blocks;
       block = take_block(*work.scratch.batch, shared.mailbox)) {
    const u32 i = work.scratch.owner[block];
    const Target& target = work.tensors[i];
    TensorState& state = work.scratch.tensors[i];
    const u32 first = static_cast<u32>(target.first_block);
    if (state.payload_offset == 0) continue;  // refused
    if (!decode_block(target, state, block - first, shared) && simt::thread_index() == 0)
      simt::atomic_or(&state.error, static_cast<u32>(FrameError::bad_block));
    if (!finish_block(state, blocks_of(target.content_bytes), &shared.mailbox[1]) ||
        simt::thread_index() != 0)
      continue;
    const auto error = static_cast<FrameError>(simt::load_exchanged(&state.error));
    report(work, i, {error == FrameError::none ? target.content_bytes : 0, error});
  }
}

}  // namespace terrace::compression::cuda
