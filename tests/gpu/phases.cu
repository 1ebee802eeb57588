// What each part of a block costs, a kernel for each part: compiled only to be disassembled and counted
// (count_instructions). The parts are called as compress_blocks() and decompress_blocks() call them, with the
// default 256 threads and their register budget.
#include "compression/cuda/decode/decompress.cuh"
#include "compression/cuda/encode/compress.cuh"

using namespace terrace::compression::cuda;

namespace {

__device__ EncodeShared& encode_shared() { return *reinterpret_cast<EncodeShared*>(simt::shared_memory()); }
__device__ DecodeShared& decode_shared() { return *reinterpret_cast<DecodeShared*>(simt::shared_memory()); }

template <typename T>
__device__ Encoder<T> encoder_of(u32 elements) {
  return {encode_shared(), 0, elements, {}, {}};
}

template <typename T>
__device__ void scan(u32 elements, u32* to) {
  const Encoder<T> encoder = encoder_of<T>(elements);
  const MaskScan scan = scan_mask(in_shared<const T>(encoder.content()), elements,
                                  in_shared<u64>(encoder.front()), encoder.shared.base, encoder.of_warp());
  to[threadIdx.x] = scan.values + scan.nonzero_words + (scan.all_equal ? 1 : 0);
}

template <typename T>
__device__ void pack(u32 elements, u32 at) {
  const Encoder<T> encoder = encoder_of<T>(elements);
  pack_values(encoder.unpacked(), in_shared<T>(encoder.front() + at));
}

template <typename T>
__device__ void unpack(u8* to, u32 bytes) {
  const auto* packed = reinterpret_cast<const T*>(decode_shared().extent);
  expand<T>(decode_shared(), {to, bytes}, [&](u32 rank, u32) { return PackedValues<T>{packed + rank}; });
}

}  // namespace

#define TERRACE_PHASE extern "C" __global__ void __launch_bounds__(256, 3)

TERRACE_PHASE read_content(const u8* from, u32 bytes) { read_block(encode_shared().buffer, from, bytes); }
TERRACE_PHASE scan_u16(u32 elements, u32* to) { scan<u16>(elements, to); }
TERRACE_PHASE scan_u32(u32 elements, u32* to) { scan<u32>(elements, to); }
TERRACE_PHASE pack_u16(u32 elements, u32 at) { pack<u16>(elements, at); }
TERRACE_PHASE pack_u32(u32 elements, u32 at) { pack<u32>(elements, at); }
TERRACE_PHASE sum_extent(u32 bytes) {
  EncodeShared& shared = encode_shared();
  sums_for_xxh3(SharedWords{in_shared<const u64>(shared.buffer)}, bytes, shared.secret, shared.summary);
}
TERRACE_PHASE write_out(u8* to, u32 bytes) { write_extent(to, encode_shared().buffer, bytes); }
TERRACE_PHASE count_mask(u32 words, u32* to) { *to = count_values(decode_shared(), words); }
TERRACE_PHASE unpack_u16(u8* to, u32 bytes) { unpack<u16>(to, bytes); }
TERRACE_PHASE unpack_u32(u8* to, u32 bytes) { unpack<u32>(to, bytes); }
