// Compression on the GPU: the frames of docs/formats/frame.md, byte for byte those of the CPU (compressor.h),
// for many tensors in one call of two launches. Codecs: raw, zvc, zvc_exp, rle, csr8.
//
// Nothing here allocates or waits. Everything is enqueued on the caller's stream and may be captured in a
// graph; the caller gives device memory for the work between the kernels (scratch), which needs no
// initialisation and may be used again by the next call on the same stream. Results are there when the
// stream's work is done. Sources, targets and results may lie in device memory or in pinned host memory; so
// may frames: compress() then writes whole lines across the link, once, with no copy behind it and no size to
// wait for.
//
//   std::vector<Source> sources = …;                     // filled by the host
//   const std::uint64_t blocks = number_blocks(sources); // numbers the tensors' blocks
//   … copy `sources` to the device …
//   Launch launch;
//   plan_launch(Geometry{}, launch);                     // once per device
//   compress({device_sources, count, blocks, results, scratch, bytes}, launch, stream);
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "compression/frame.h"

struct CUstream_st;

namespace terrace::compression::cuda {

using Stream = CUstream_st*;  // cudaStream_t

// A tensor to compress. `frame` is aligned to 16 bytes and has `frame_capacity` bytes, at least frame_bound()
// of the content; `content` is aligned to its element (16 bytes are read at once where it is aligned to 16).
struct Source {
  const void* content = nullptr;
  void* frame = nullptr;
  std::uint64_t content_bytes = 0;
  std::uint64_t frame_capacity = 0;
  std::uint64_t first_block = 0;  // number_blocks() says
  Codec codec = Codec::zvc;
  ElementType element = ElementType::f32;
  std::uint8_t alignment_log2 = 4;
};

// A frame to decompress, of arbitrary bytes. `frame` is aligned to 16 bytes, `content` to the frame's
// element.
struct Target {
  const void* frame = nullptr;
  void* content = nullptr;
  std::uint64_t frame_bytes = 0;
  std::uint64_t content_bytes = 0;  // exactly what the frame holds
  std::uint64_t first_block = 0;    // number_blocks() says
};

// What became of a tensor: the verdicts are the CPU's. bad_argument also says: pointers not aligned, or a
// batch whose blocks are numbered otherwise than by number_blocks(), of which then no tensor is touched.
struct Result {
  std::uint64_t bytes = 0;  // of the frame (compress) or of the content (decompress); 0 on an error
  FrameError error = FrameError::none;
};

// Sets first_block of all and returns the batch's blocks; all of a batch are below 2^32.
std::uint64_t number_blocks(std::span<Source> sources);
std::uint64_t number_blocks(std::span<Target> targets);

// How a kernel's threads are arranged; compression/tuner/tuner.h finds the best for a device.
struct Geometry {
  unsigned threads = 256;  // of a CTA: 128, 256 or 512
  unsigned ctas_per_unit =
      3;  // CTAs at once on a multiprocessor, 1 to 8; fewer where its shared memory is smaller
};

enum class Status : std::uint8_t {
  ok = 0,
  bad_geometry,   // not among those above
  no_device,      // no GPU, or no driver that is new enough
  scratch_small,  // less than scratch_bytes()
  bad_batch,      // null where there has to be a pointer, or misaligned, or too many blocks
  launch_failed,  // cudaGetLastError() says why
};
const char* describe(Status status);

// A geometry made ready for the current device.
struct Launch {
  unsigned threads = 0;
  unsigned compress_ctas = 0, decompress_ctas = 0;  // that fill the device
};
Status plan_launch(Geometry geometry, Launch& launch);

// Device memory that a batch needs between its kernels, at an address that is a multiple of 16.
std::size_t scratch_bytes(std::uint32_t tensors, std::uint64_t blocks);

template <typename Tensor>
struct Batch {
  const Tensor* tensors = nullptr;
  std::uint32_t count = 0;
  std::uint64_t blocks = 0;
  Result* results = nullptr;  // one each
  void* scratch = nullptr;
  std::size_t scratch_bytes = 0;
};
Status compress(const Batch<Source>& batch, const Launch& launch, Stream stream);
Status decompress(const Batch<Target>& batch, const Launch& launch, Stream stream);

// The same for one tensor that the host describes in the call (first_block is 0): two launches as well, and
// no copy to the device or back. `verdict` is in pinned host memory, at the device's address for it; ns is
// the device's time for the tensor.
struct Verdict {
  Result result;
  std::uint64_t ns = 0;
};
struct LoneMemory {
  void* scratch = nullptr;  // device memory, aligned to 16 bytes
  std::size_t scratch_bytes = 0;
  Verdict* verdict = nullptr;
};
std::size_t lone_scratch_bytes(std::uint64_t content_bytes);
Status compress_lone(const Source& source, const LoneMemory& memory, const Launch& launch, Stream stream);
Status decompress_lone(const Target& target, const LoneMemory& memory, const Launch& launch, Stream stream);

// ReLU and Gist's binarize in one pass, as gist.h's relu_binarize() on the CPU: y = x where x is above 0 or a
// NaN, else 0, and a bit for each element, set where y = x, in 64-bit words, element 64 w + i in bit i of
// word w; ceil(n / 64) words are written. `y` may be `x`. All floating-point types; x and y are aligned to 16
// bytes.
Status relu_binarize(ElementType type, const void* x, void* y, std::uint64_t* mask, std::uint64_t elements,
                     Stream stream);
// ReLU's backward pass from that mask: dx = dy where the bit is set, else 0. dx may be dy.
Status relu_backward(ElementType type, const std::uint64_t* mask, const void* dy, void* dx,
                     std::uint64_t elements, Stream stream);

}  // namespace terrace::compression::cuda
