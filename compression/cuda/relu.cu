// ReLU kernels and their launches.
#include "compression/cuda/relu.cuh"

#include <cuda_runtime.h>

#include "compression/cuda/compression_cuda.h"

namespace terrace::compression::cuda {
namespace {

constexpr unsigned relu_threads = 256;
constexpr std::uint64_t most_relu_ctas = 1 << 16;  // each loops over what is left

template <typename T>
__global__ void __launch_bounds__(relu_threads) forward_kernel(const __grid_constant__ ReluWork work) {
  relu_forward<T>(work);
}

template <typename T>
__global__ void __launch_bounds__(relu_threads) backward_kernel(const __grid_constant__ ReluWork work) {
  relu_backward<T>(work);
}

using Kernel = void (*)(ReluWork);

// For elements of 1, 2, 4 and 8 bytes.
Kernel forward_of(std::size_t width) {
  return width == 1   ? forward_kernel<u8>
         : width == 2 ? forward_kernel<u16>
         : width == 4 ? forward_kernel<u32>
                      : forward_kernel<u64>;
}
Kernel backward_of(std::size_t width) {
  return width == 1   ? backward_kernel<u8>
         : width == 2 ? backward_kernel<u16>
         : width == 4 ? backward_kernel<u32>
                      : backward_kernel<u64>;
}

bool is_multiple(const void* pointer, std::uintptr_t of) {
  return reinterpret_cast<std::uintptr_t>(pointer) % of == 0;
}

Status start(Kernel kernel, const ReluWork& work, Stream stream) {
  if (work.from == nullptr || work.to == nullptr || work.mask == nullptr) return Status::bad_batch;
  if (!is_multiple(work.from, 16) || !is_multiple(work.to, 16) || !is_multiple(work.mask, 8))
    return Status::bad_batch;
  constexpr std::uint64_t bytes_of_cta = std::uint64_t{relu_threads} * relu_vectors * 16;
  const std::uint64_t ctas = (work.bytes + bytes_of_cta - 1) / bytes_of_cta;
  kernel<<<static_cast<unsigned>(ctas < most_relu_ctas ? ctas : most_relu_ctas), relu_threads, 0, stream>>>(
      work);
  return cudaPeekAtLastError() == cudaSuccess ? Status::ok : Status::launch_failed;
}

bool is_float(ElementType type) {
  return static_cast<int>(type) < element_type_count && shape_of(type).exponent_bits != 0;
}

}  // namespace

Status relu_binarize(ElementType type, const void* x, void* y, std::uint64_t* mask, std::uint64_t elements,
                     Stream stream) {
  if (!is_float(type)) return Status::bad_batch;
  if (elements == 0) return Status::ok;
  const ReluWork work{static_cast<const u8*>(x), static_cast<u8*>(y), reinterpret_cast<u32*>(mask),
                      elements * width_of(type), negative_infinity_of(type)};
  return start(forward_of(width_of(type)), work, stream);
}

Status relu_backward(ElementType type, const std::uint64_t* mask, const void* dy, void* dx,
                     std::uint64_t elements, Stream stream) {
  if (!is_float(type)) return Status::bad_batch;
  if (elements == 0) return Status::ok;
  // The kernel reads a mask that the other one writes; both have one description.
  auto* words = reinterpret_cast<u32*>(const_cast<std::uint64_t*>(mask));
  const ReluWork work{static_cast<const u8*>(dy), static_cast<u8*>(dx), words, elements * width_of(type), 0};
  return start(backward_of(width_of(type)), work, stream);
}

}  // namespace terrace::compression::cuda
