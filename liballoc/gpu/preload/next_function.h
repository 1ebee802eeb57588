// What a program's call would have reached without us: the next implementation of a CUDA function.
//
// dlsym(RTLD_NEXT) finds it where the CUDA library belongs to the program or was opened with RTLD_GLOBAL. A
// runtime that a Python extension brought along (RTLD_LOCAL) is found among the loaded objects by its name.
// dlsym itself is never hooked, and a library is asked through its own handle, which cannot lead back here:
// the endless recursion of preloads that hook dlsym (HAMi-core issue 215) cannot arise.
#pragma once

#include <atomic>
#include <cstring>

namespace terrace::liballoc::gpu {

enum class Library { runtime, driver };  // libcudart.so, libcuda.so

// nullptr: no such library is loaded, or it has no such function (yet: it is looked for again at the next
// call).
void* find_next_function(Library library, const char* name);

// One function, looked up at its first use and then kept. Constant-initialised.
template <typename Function>
class NextFunction {
 public:
  constexpr NextFunction(Library library, const char* name) : library_(library), name_(name) {}

  // nullptr as above.
  Function get() {
    void* symbol = found_.load(std::memory_order_acquire);
    if (symbol == nullptr) {
      symbol = find_next_function(library_, name_);
      found_.store(symbol, std::memory_order_release);
    }
    Function function = nullptr;
    std::memcpy(&function, &symbol, sizeof(symbol));
    return function;
  }

  // The function's answer, or `otherwise` where there is none.
  template <typename... Arguments>
  int call_or(int otherwise, Arguments... arguments) {
    const Function function = get();
    return function == nullptr ? otherwise : function(arguments...);
  }

 private:
  Library library_;
  const char* name_;
  std::atomic<void*> found_{nullptr};
};

}  // namespace terrace::liballoc::gpu
