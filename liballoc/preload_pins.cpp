// libterrace_preload.so: the calls by which a program hands memory to a device for longer than one system
// call.
//
// Under the `move` path the kernel refuses pinned pages by itself (docs/decisions/004). The other two cannot
// see a pin, so whatever is registered through a library we can stand in front of is pinned here: io_uring's
// fixed buffers (liburing), RDMA memory regions (libibverbs), host memory registered with CUDA. A range stays
// pinned until its block is freed. What goes past these libraries straight to the kernel must be named with
// terrace_pin().
#include <dlfcn.h>
#include <linux/types.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

#include "liballoc/heap.h"
#include "liballoc/terrace.h"

using terrace::liballoc::heap;
using terrace::liballoc::MoverKind;

struct io_uring;
struct ibv_pd;
struct ibv_mr;

namespace {

template <typename Function>
Function next(const char* name) {
  Function function = nullptr;
  void* symbol = dlsym(RTLD_NEXT, name);
  std::memcpy(&function, &symbol, sizeof(symbol));
  return function;
}

bool must_hold(const void* address) {
  return heap().owns(address) && !heap().is_bootstrap(address) &&
         heap().agent().mover().kind() != MoverKind::move;
}

void hold(const void* address, std::size_t bytes) {
  if (must_hold(address)) heap().pin(address, bytes);
}

void hold_all(const iovec* buffers, unsigned count) {
  for (unsigned i = 0; i < count; ++i) hold(buffers[i].iov_base, buffers[i].iov_len);
}

constexpr int cuda_error_not_supported = 801;

}  // namespace

extern "C" {

TERRACE_API int io_uring_register_buffers(io_uring* ring, const iovec* buffers, unsigned count) {
  static const auto real = next<int (*)(io_uring*, const iovec*, unsigned)>("io_uring_register_buffers");
  if (real == nullptr) return -ENOSYS;
  hold_all(buffers, count);
  return real(ring, buffers, count);
}

TERRACE_API int io_uring_register_buffers_tags(io_uring* ring, const iovec* buffers, const __u64* tags,
                                               unsigned count) {
  static const auto real =
      next<int (*)(io_uring*, const iovec*, const __u64*, unsigned)>("io_uring_register_buffers_tags");
  if (real == nullptr) return -ENOSYS;
  hold_all(buffers, count);
  return real(ring, buffers, tags, count);
}

TERRACE_API int io_uring_register_buffers_update_tag(io_uring* ring, unsigned offset, const iovec* buffers,
                                                     const __u64* tags, unsigned count) {
  static const auto real = next<int (*)(io_uring*, unsigned, const iovec*, const __u64*, unsigned)>(
      "io_uring_register_buffers_update_tag");
  if (real == nullptr) return -ENOSYS;
  hold_all(buffers, count);
  return real(ring, offset, buffers, tags, count);
}

TERRACE_API ibv_mr* ibv_reg_mr(ibv_pd* domain, void* address, std::size_t bytes, int access) {
  static const auto real = next<ibv_mr* (*)(ibv_pd*, void*, std::size_t, int)>("ibv_reg_mr");
  if (real == nullptr) {
    errno = ENOSYS;
    return nullptr;
  }
  hold(address, bytes);
  return real(domain, address, bytes, access);
}

TERRACE_API int cudaHostRegister(void* address, std::size_t bytes, unsigned flags) {
  static const auto real = next<int (*)(void*, std::size_t, unsigned)>("cudaHostRegister");
  if (real == nullptr) return cuda_error_not_supported;
  hold(address, bytes);
  return real(address, bytes, flags);
}

}  // extern "C"
