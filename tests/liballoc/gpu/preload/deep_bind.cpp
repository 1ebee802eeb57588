// Opens a library that uses CUDA the way that hides it from a preload, or with a second argument the usual
// way.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

int main(int count, char** words) {
  const int mode = RTLD_NOW | (count > 2 ? 0 : RTLD_DEEPBIND);
  void* library = count > 1 ? dlopen(words[1], mode) : nullptr;
  void* symbol = library != nullptr ? dlsym(library, "use_cuda") : nullptr;
  if (symbol == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 3;
  }
  int (*use_cuda)() = nullptr;
  std::memcpy(&use_cuda, &symbol, sizeof(symbol));
  return use_cuda();
}
