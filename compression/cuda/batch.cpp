// What of a batch the host does; needs no CUDA.
#include "compression/cuda/compression_cuda.h"

namespace terrace::compression::cuda {
namespace {

// Tensors above the limit are refused on the device and take no blocks.
std::uint64_t blocks_taken(std::uint64_t content_bytes) {
  return content_bytes > max_content_bytes ? 0 : (content_bytes + block_bytes - 1) / block_bytes;
}

template <typename Tensor>
std::uint64_t number(std::span<Tensor> tensors) {
  std::uint64_t next = 0;
  for (Tensor& tensor : tensors) {
    tensor.first_block = next;
    next += blocks_taken(tensor.content_bytes);
  }
  return next;
}

}  // namespace

std::uint64_t number_blocks(std::span<Source> sources) { return number(sources); }
std::uint64_t number_blocks(std::span<Target> targets) { return number(targets); }

const char* describe(Status status) {
  switch (status) {
    case Status::ok:
      return "no error";
    case Status::bad_geometry:
      return "the geometry is not 128, 256 or 512 threads and 1 to 8 CTAs";
    case Status::no_device:
      return "no usable GPU: the driver is missing or older than the CUDA runtime";
    case Status::scratch_small:
      return "the scratch memory is smaller than scratch_bytes()";
    case Status::bad_batch:
      return "the batch has a null or misaligned pointer, or more than 2^32 - 1 blocks";
    case Status::launch_failed:
      return "CUDA refused the launch: cudaGetLastError() says why";
  }
  return "unknown status";
}

}  // namespace terrace::compression::cuda
