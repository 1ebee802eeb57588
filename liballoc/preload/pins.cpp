// libterrace_preload.so: the calls by which a program hands memory to a device for
// longer than one system call.
//
// Under the `move` path the kernel refuses pinned pages by itself (docs/decisions/004). The other two
// cannot see a pin, so whatever is registered through a library we can stand in front of is pinned here:
// io_uring's fixed buffers (liburing), RDMA memory regions (libibverbs), host memory registered with
// CUDA. A range stays pinned until its block is freed. What goes past these libraries straight to the
// kernel must be named with terrace_pin().
#include <dlfcn.h>
#include <liburing.h>
#include <linux/types.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

#include "liballoc/base/signal_guard.h"
#include "liballoc/heap/heap.h"
#include "liballoc/terrace.h"

using terrace::liballoc::heap;
using terrace::liballoc::LockGuard;
using terrace::liballoc::MoverKind;

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
  return heap().owns_block(address) && heap().agent().mover().kind() != MoverKind::move;
}

// What is held, and for whom: a ring, a memory region, an address. A range beyond the table's end stays
// pinned until its block is freed. The heap's lock guards the table: a child finds it whole, and free.
struct Registration {
  const void* owner;
  const void* address;
  std::size_t bytes;
};
constexpr std::size_t most_registrations = 4096;
constinit Registration registrations[most_registrations] = {};
constinit std::size_t registration_count = 0;

void hold(const void* owner, const void* address, std::size_t bytes) {
  if (!must_hold(address) || heap().pins().pin(address, bytes) != 0) return;
  const LockGuard guard(heap().blocks().lock());
  if (registration_count < most_registrations) registrations[registration_count++] = {owner, address, bytes};
}

void hold_all(const io_uring* ring, const iovec* buffers, unsigned count) {
  for (unsigned i = 0; i < count; ++i) hold(ring, buffers[i].iov_base, buffers[i].iov_len);
}

bool take_registration(const void* owner, Registration* out) {
  const LockGuard guard(heap().blocks().lock());
  for (std::size_t i = registration_count; i-- > 0;) {
    if (registrations[i].owner != owner) continue;
    *out = registrations[i];
    registrations[i] = registrations[--registration_count];
    return true;
  }
  return false;
}

void let_go(const void* owner) {
  for (Registration r; take_registration(owner, &r);) heap().pins().unpin(r.address, r.bytes);
}

constexpr int cuda_error_not_supported = 801;

}  // namespace

extern "C" {

TERRACE_API int io_uring_register_buffers(io_uring* ring, const iovec* buffers, unsigned count) {
  static const auto real = next<int (*)(io_uring*, const iovec*, unsigned)>("io_uring_register_buffers");
  if (real == nullptr) return -ENOSYS;
  hold_all(ring, buffers, count);
  return real(ring, buffers, count);
}

TERRACE_API int io_uring_register_buffers_tags(io_uring* ring, const iovec* buffers, const __u64* tags,
                                               unsigned count) {
  static const auto real =
      next<int (*)(io_uring*, const iovec*, const __u64*, unsigned)>("io_uring_register_buffers_tags");
  if (real == nullptr) return -ENOSYS;
  hold_all(ring, buffers, count);
  return real(ring, buffers, tags, count);
}

TERRACE_API int io_uring_register_buffers_update_tag(io_uring* ring, unsigned offset, const iovec* buffers,
                                                     const __u64* tags, unsigned count) {
  static const auto real = next<int (*)(io_uring*, unsigned, const iovec*, const __u64*, unsigned)>(
      "io_uring_register_buffers_update_tag");
  if (real == nullptr) return -ENOSYS;
  hold_all(ring, buffers, count);
  return real(ring, offset, buffers, tags, count);
}

TERRACE_API ibv_mr* ibv_reg_mr(ibv_pd* domain, void* address, std::size_t bytes, int access) {
  static const auto real = next<ibv_mr* (*)(ibv_pd*, void*, std::size_t, int)>("ibv_reg_mr");
  if (real == nullptr) {
    errno = ENOSYS;
    return nullptr;
  }
  ibv_mr* region = real(domain, address, bytes, access);
  if (region != nullptr) hold(region, address, bytes);
  return region;
}

TERRACE_API int cudaHostRegister(void* address, std::size_t bytes, unsigned flags) {
  static const auto real = next<int (*)(void*, std::size_t, unsigned)>("cudaHostRegister");
  if (real == nullptr) return cuda_error_not_supported;
  hold(address, address, bytes);
  return real(address, bytes, flags);
}

TERRACE_API int io_uring_unregister_buffers(io_uring* ring) {
  static const auto real = next<int (*)(io_uring*)>("io_uring_unregister_buffers");
  if (real == nullptr) return -ENOSYS;
  const int result = real(ring);
  if (result == 0) let_go(ring);
  return result;
}

TERRACE_API void io_uring_queue_exit(io_uring* ring) {
  static const auto real = next<void (*)(io_uring*)>("io_uring_queue_exit");
  // Without liburing.so the caller is this library's own tier, which links the archive.
  real != nullptr ? real(ring) : static_cast<void>(syscall(SYS_close, ring->ring_fd));
  let_go(ring);
}

TERRACE_API int ibv_dereg_mr(ibv_mr* region) {
  static const auto real = next<int (*)(ibv_mr*)>("ibv_dereg_mr");
  if (real == nullptr) return ENOSYS;
  const int result = real(region);
  if (result == 0) let_go(region);
  return result;
}

TERRACE_API int cudaHostUnregister(void* address) {
  static const auto real = next<int (*)(void*)>("cudaHostUnregister");
  if (real == nullptr) return cuda_error_not_supported;
  const int result = real(address);
  if (result == 0) let_go(address);
  return result;
}

}  // extern "C"
