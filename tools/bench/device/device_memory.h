// CUDA memory and its errors, for the tests and the benchmark of the kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace terrace::bench {

inline void require_cuda(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

// On the device, or (pinned) on the host where both see it.
class DeviceMemory {
 public:
  enum class Place { device, pinned };

  explicit DeviceMemory(std::size_t bytes, Place place = Place::device) : bytes_(bytes), place_(place) {
    const std::size_t some = bytes > 0 ? bytes : 16;
    require_cuda(place == Place::device ? cudaMalloc(&memory_, some) : cudaMallocHost(&memory_, some),
                 "allocating");
  }
  ~DeviceMemory() {
    if (memory_ != nullptr) place_ == Place::device ? cudaFree(memory_) : cudaFreeHost(memory_);
  }
  DeviceMemory(DeviceMemory&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_), place_(other.place_) {}
  DeviceMemory& operator=(DeviceMemory&&) = delete;

  template <typename T = std::byte>
  T* at(std::size_t offset = 0) const {
    return static_cast<T*>(static_cast<void*>(static_cast<std::byte*>(memory_) + offset));
  }
  std::size_t bytes() const { return bytes_; }

  void fill(int value) { require_cuda(cudaMemset(memory_, value, bytes_), "filling"); }
  void read(void* to, std::size_t bytes, std::size_t offset = 0) const {
    if (bytes > 0) require_cuda(cudaMemcpy(to, at(offset), bytes, cudaMemcpyDefault), "reading");
  }
  void write(const void* from, std::size_t bytes, std::size_t offset = 0) {
    if (bytes > 0) require_cuda(cudaMemcpy(at(offset), from, bytes, cudaMemcpyDefault), "writing");
  }

 private:
  void* memory_ = nullptr;
  std::size_t bytes_;
  Place place_;
};

}  // namespace terrace::bench
