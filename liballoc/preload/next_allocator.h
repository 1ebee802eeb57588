// The allocator that would have served the program without us: glibc's, or jemalloc, mimalloc, tcmalloc when
// they are preloaded behind us. Found once by dlsym(RTLD_NEXT), called through these pointers.
#pragma once

#include <cstddef>

namespace terrace::liballoc {

struct NextAllocator {
  void* (*malloc)(std::size_t);
  void* (*calloc)(std::size_t, std::size_t);
  void* (*realloc)(void*, std::size_t);
  void (*free)(void*);
  int (*posix_memalign)(void**, std::size_t, std::size_t);
  void* (*aligned_alloc)(std::size_t, std::size_t);
  void* (*memalign)(std::size_t, std::size_t);
  void* (*valloc)(std::size_t);
  void* (*pvalloc)(std::size_t);
  std::size_t (*malloc_usable_size)(void*);
};

// False when a function is missing (a static program cannot get here).
bool find_next_allocator(NextAllocator* next);

}  // namespace terrace::liballoc
