// A program that allocates with CUDA, writes, reads and frees: built against the shared and the static
// runtime, and as a library for deep_bind.cpp. Exits with 1 when the memory is not what it should be, with 2
// without memory.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>

extern "C" int use_cuda() {
  constexpr std::size_t bytes = 1 << 20;
  void* block = nullptr;
  const cudaError_t error = cudaMalloc(&block, bytes);
  std::printf("cudaMalloc: %d\n", static_cast<int>(error));
  if (error != cudaSuccess || block == nullptr) return 2;
  std::memset(block, 0x5a, bytes);
  const bool holds = static_cast<unsigned char*>(block)[bytes - 1] == 0x5a;
  std::size_t left = 0;
  std::size_t total = 0;
  const bool knows_room = cudaMemGetInfo(&left, &total) == cudaSuccess && left < total;
  void* too_much = nullptr;
  const bool refused = cudaMalloc(&too_much, 1ULL << 40) == cudaErrorMemoryAllocation;
  const cudaError_t last = cudaGetLastError();  // and forgets it
  const bool told = last == cudaErrorMemoryAllocation && cudaGetLastError() == cudaSuccess;
  const bool freed = cudaFree(block) == cudaSuccess && cudaFree(nullptr) == cudaSuccess;
  std::printf("holds %d, room %d, refused %d, told %d, freed %d\n", holds, knows_room, refused, told, freed);
  return holds && knows_room && refused && told && freed ? 0 : 1;
}

#ifndef AS_LIBRARY
int main() { return use_cuda(); }
#endif
