#include "liballoc/gpu/preload/next_function.h"

#include <dlfcn.h>
#include <link.h>

#include <climits>

namespace terrace::liballoc::gpu {

namespace {

struct Wanted {
  const char* prefix;
  char path[PATH_MAX];
};

// Copies the path and ends. Opening it in here would take the loader's locks in the wrong order.
int remember_path(dl_phdr_info* info, std::size_t, void* argument) {
  auto* wanted = static_cast<Wanted*>(argument);
  const char* slash = std::strrchr(info->dlpi_name, '/');
  const char* file = slash != nullptr ? slash + 1 : info->dlpi_name;
  if (std::strncmp(file, wanted->prefix, std::strlen(wanted->prefix)) != 0) return 0;
  if (std::strlen(info->dlpi_name) >= sizeof(wanted->path)) return 0;
  std::strcpy(wanted->path, info->dlpi_name);
  return 1;
}

}  // namespace

void* find_next_function(Library library, const char* name) {
  if (void* symbol = dlsym(RTLD_NEXT, name); symbol != nullptr) return symbol;
  Wanted wanted{library == Library::runtime ? "libcudart.so" : "libcuda.so", ""};
  if (dl_iterate_phdr(remember_path, &wanted) == 0) return nullptr;
  void* handle = dlopen(wanted.path, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  void* symbol = dlsym(handle, name);
  dlclose(handle);
  return symbol;
}

}  // namespace terrace::liballoc::gpu
