// See direct_storage.h.
#include "tiers/gpu/direct_storage.h"

#include <dlfcn.h>
#include <sys/types.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tiers/gpu/cufile_abi.h"

namespace terrace::tiers::gpu {

// The functions that are used, all of cuFile 1.0 (CUDA 11.4) on.
struct CufileTable {
  CufileError (*driver_open)() = nullptr;
  CufileError (*handle_register)(void** file, CufileDescription* description) = nullptr;
  void (*handle_deregister)(void* file) = nullptr;
  CufileError (*buffer_register)(const void* device, std::size_t bytes, int flags) = nullptr;
  CufileError (*buffer_deregister)(const void* device) = nullptr;
  ssize_t (*read)(void* file, void* device, std::size_t bytes, off_t file_at, off_t device_at) = nullptr;
  ssize_t (*write)(void* file, const void* device, std::size_t bytes, off_t file_at,
                   off_t device_at) = nullptr;
};

namespace {

thread_local char last_error[160] = "";

int refused(const char* what, CufileError error) noexcept {
  if (error.cufile == 0) return 0;
  std::snprintf(last_error, sizeof last_error, "%s: cuFile error %d, CUDA error %d", what, error.cufile,
                error.cuda);
  return ENOTSUP;
}

// cuFileRead and cuFileWrite: bytes, or -1 with errno, or a cuFile error, negative. Less than asked is a
// failure: an extent of the pool file is whole.
int transferred(const char* what, ssize_t result, std::uint64_t bytes) noexcept {
  if (result >= 0 && static_cast<std::uint64_t>(result) == bytes) return 0;
  if (result == -1) {
    std::snprintf(last_error, sizeof last_error, "%s: %s", what, ::strerrordesc_np(errno));
  } else if (result < 0) {
    std::snprintf(last_error, sizeof last_error, "%s: cuFile error %zd", what, -result);
  } else {
    std::snprintf(last_error, sizeof last_error, "%s: %zd of %llu bytes", what, result,
                  static_cast<unsigned long long>(bytes));
  }
  return EIO;
}

template <class Function>
bool load(void* library, Function* out, const char* name) noexcept {
  *out = reinterpret_cast<Function>(::dlsym(library, name));
  return *out != nullptr;
}

bool load_all(void* library, CufileTable* table) noexcept {
  return load(library, &table->driver_open, "cuFileDriverOpen") &&
         load(library, &table->handle_register, "cuFileHandleRegister") &&
         load(library, &table->handle_deregister, "cuFileHandleDeregister") &&
         load(library, &table->buffer_register, "cuFileBufRegister") &&
         load(library, &table->buffer_deregister, "cuFileBufDeregister") &&
         load(library, &table->read, "cuFileRead") && load(library, &table->write, "cuFileWrite");
}

}  // namespace

DirectStorage::DirectStorage(std::unique_ptr<CufileTable> table) noexcept : table_(std::move(table)) {}

int DirectStorage::open(std::unique_ptr<DirectStorage>* out, std::string* reason, const char* library) {
  void* const loaded = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) {
    const char* const words = ::dlerror();
    *reason = std::string("GPUDirect Storage was not found (") + (words != nullptr ? words : library) +
              "): install the packages of libcufile (nvidia-gds) for it; pinned host memory is used instead";
    return ENOTSUP;
  }
  auto table = std::make_unique<CufileTable>();
  if (!load_all(loaded, table.get())) {
    *reason = std::string(library) + " lacks a function of cuFile 1.0: update it (CUDA 11.4 or newer)";
    return ENOTSUP;
  }
  const CufileError error = table->driver_open();
  if (error.cufile != cufile_already_open && refused("cuFileDriverOpen", error) != 0) {
    *reason = std::string("GPUDirect Storage does not start (") + last_error +
              "): see gdscheck -p, and whether nvidia-fs is loaded; pinned host memory is used instead";
    return ENOTSUP;
  }
  out->reset(new DirectStorage(std::move(table)));
  return 0;
}

// cuFile's driver is the process's: to close it would end the transfers of every other user, so it stays
// open, and the library loaded, until the process ends.
DirectStorage::~DirectStorage() = default;

int DirectStorage::add_file(int fd, File* out) noexcept {
  CufileDescription description{};
  description.type = cufile_type_descriptor;
  description.handle.fd = fd;
  void* file = nullptr;
  const int error = refused("cuFileHandleRegister", table_->handle_register(&file, &description));
  if (error == 0) *out = file;
  return error;
}

void DirectStorage::remove_file(File file) noexcept { table_->handle_deregister(file); }

int DirectStorage::add_buffer(void* device, std::uint64_t bytes) noexcept {
  return refused("cuFileBufRegister", table_->buffer_register(device, bytes, 0));
}

int DirectStorage::remove_buffer(void* device) noexcept {
  return refused("cuFileBufDeregister", table_->buffer_deregister(device));
}

int DirectStorage::read(File file, void* device, std::uint64_t bytes, std::uint64_t offset) noexcept {
  return transferred("cuFileRead", table_->read(file, device, bytes, static_cast<off_t>(offset), 0), bytes);
}

int DirectStorage::write(File file, const void* device, std::uint64_t bytes, std::uint64_t offset) noexcept {
  return transferred("cuFileWrite", table_->write(file, device, bytes, static_cast<off_t>(offset), 0), bytes);
}

const char* DirectStorage::error_text() const noexcept { return last_error; }

}  // namespace terrace::tiers::gpu
