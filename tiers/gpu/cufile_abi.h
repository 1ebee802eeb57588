// The few types of libcufile's interface that are used here, declared anew: its header comes with a package
// that many machines lack. Source: NVIDIA GPUDirect Storage "cuFile API Reference Guide", sections "cuFile
// Typedefs, Enums and Structs"; the layout is that of x86-64 and has been the same since CUDA 11.4.
#pragma once

#include <cstddef>

namespace terrace::tiers::gpu {

// CUfileError_t. 0 is success; cuda is set when cufile says that CUDA failed.
struct CufileError {
  int cufile;
  int cuda;
};

inline constexpr int cufile_already_open = 5026;  // CU_FILE_DRIVER_ALREADY_OPEN
inline constexpr int cufile_type_descriptor = 1;  // CU_FILE_HANDLE_TYPE_OPAQUE_FD

// CUfileDescr_t.
struct CufileDescription {
  int type;
  union {
    int fd;
    void* handle;
  } handle;
  const void* operations;  // of a file system in user space: none
};
static_assert(sizeof(CufileDescription) == 24 && offsetof(CufileDescription, handle) == 8);

}  // namespace terrace::tiers::gpu
