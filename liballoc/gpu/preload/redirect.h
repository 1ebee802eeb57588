// What every hook does: give a request to Terrace's GPU heap (terrace_gpu.h), or say that it goes on to the
// next implementation. Here is also what CUDA promises about streams and the heap does not:
//
//   cudaMalloc   the block may be used in any stream at once. The heap orders a reused block behind the
//   stream it
//                was freed in by making the default stream wait; when the program frees in streams at all,
//                the host waits for the default stream here.
//   cudaFree     may be called while kernels of any stream still use the block: CUDA waits for the device
//                first ("implicit synchronisation", CUDA programming guide), and so is done here, as it was
//                without us.
//   stream 0     the legacy default stream is the heap's: an event recorded there is behind the work of every
//                stream but those made with cudaStreamNonBlocking, and what waits there holds up the same
//                streams (CUDA Runtime API, "Stream synchronization behavior"). The thread's own (…_ptsz) is
//                another one for each thread, and nothing orders them among themselves.
//   streams      may be destroyed while their work runs, and their handles come again: the heap is told.
//   capture      a stream that is being captured into a graph must not see the heap's events: allocations go
//   to the
//                next implementation (where they become nodes of the graph), freeing a block of ours is
//                refused.
//
// Nothing happens without TERRACE_GPU. Where the heap cannot work (no libterrace_gpu.so, no usable GPU), one
// line says so and the program goes on with CUDA's own allocator. A full heap is no such case: it is the
// error that the program asked to see. Any thread may call anything.
#pragma once

#include <cstddef>
#include <cstdint>

#include "liballoc/gpu/preload/cuda_abi.h"
#include "liballoc/gpu/preload/next_function.h"

namespace terrace::liballoc::gpu {

// Not an error code: call the next implementation.
inline constexpr int pass_on = -1;

// Whether requests of the calling thread go to the heap. False in the heap's own calls.
bool is_redirecting();

// A CUDA error code, or pass_on. `via` is the interface that was called: it is asked for the current device.
int allocate(Library via, void** out, std::size_t bytes);
int allocate_in_stream(Library via, void** out, std::size_t bytes, CudaStream stream);
int release(Library via, void* block);
int release_in_stream(Library via, void* block, CudaStream stream);
// Before the next implementation destroys it.
void stream_ends(Library via, CudaStream stream);
// Of the budget in force, or else of the device.
int memory_info(Library via, std::size_t* free_bytes, std::size_t* total_bytes);
// Only the current device's default pool is ours to answer for: another may be shared with other processes.
bool is_default_pool(CudaPool pool);

std::uint64_t allocations_served();

}  // namespace terrace::liballoc::gpu
