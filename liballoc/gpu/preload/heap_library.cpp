#include "liballoc/gpu/preload/heap_library.h"

#include <dlfcn.h>

#include <cctype>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "liballoc/base/kill_switch.h"
#include "liballoc/base/message.h"
#include "liballoc/wire/size.h"

namespace terrace::liballoc::gpu {

namespace {

// Beside this library (its RUNPATH is $ORIGIN), or where LD_LIBRARY_PATH says.
constexpr const char* library_name = "libterrace_gpu.so.0";
constexpr const char* emulated_prefix = "emulated:";

bool is_set(const char* name) {
  const char* value = secure_getenv(name);
  return value != nullptr && *value != '\0';
}

// "expandable_segments:True" among the settings, with any spaces and capitals.
bool has_expandable_segments(const char* settings) {
  static constexpr char wanted[] = "expandable_segments:true";
  std::size_t matched = 0;
  for (const char* at = settings; at != nullptr && *at != '\0'; ++at) {
    if (std::isspace(static_cast<unsigned char>(*at)) != 0) continue;
    const char c = static_cast<char>(std::tolower(static_cast<unsigned char>(*at)));
    matched = c == wanted[matched] ? matched + 1 : c == wanted[0] ? 1 : 0;
    if (matched == sizeof(wanted) - 1) return true;
  }
  return false;
}

bool refuses_segments() {
  if (heap_is_emulated()) return false;
  for (const char* name : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
    if (!has_expandable_segments(secure_getenv(name))) continue;
    Message(Severity::error) << name
                             << " has expandable_segments:True, with which PyTorch maps GPU memory past "
                                "cudaMalloc; running without Terrace's GPU heap: take it out of "
                             << name;
    return true;
  }
  return false;
}

bool read_environment() {
  const char* disable = secure_getenv("TERRACE_DISABLE");
  const Switch disabled = switch_of(disable);
  if (!is_set("TERRACE_GPU") || disabled == Switch::on) return false;
  if (disabled == Switch::off) return !refuses_segments();
  Message(Severity::error) << "TERRACE_DISABLE=" << disable << " is not understood (" << switch_words
                           << "); running without Terrace's GPU heap";
  return false;
}

template <typename Function>
bool look_up(void* library, const char* name, Function* out) {
  void* symbol = dlsym(library, name);
  std::memcpy(out, &symbol, sizeof(symbol));
  if (symbol == nullptr)
    Message(Severity::error) << library_name << " has no " << name << "; is it of this version?";
  return symbol != nullptr;
}

// Stays open for good: blocks live as long as the process.
bool open_library(HeapLibrary* out) {
  void* library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    Message(Severity::error) << dlerror()
                             << "; running without Terrace's GPU heap: build or install all of Terrace";
    return false;
  }
  return look_up(library, "terrace_gpu_alloc", &out->allocate) &&
         look_up(library, "terrace_gpu_free", &out->release) &&
         look_up(library, "terrace_gpu_end_stream", &out->end_stream) &&
         look_up(library, "terrace_gpu_get_statistics", &out->statistics);
}

std::once_flag environment_once;
std::once_flag library_once;
bool wanted = false;
bool opened = false;
HeapLibrary library;

}  // namespace

bool heap_is_emulated() {
  const char* device = secure_getenv("TERRACE_GPU");
  return device != nullptr && std::strncmp(device, emulated_prefix, std::strlen(emulated_prefix)) == 0;
}

int first_device() {
  const char* device = secure_getenv("TERRACE_GPU");
  if (device == nullptr || std::strncmp(device, "cuda:", 5) != 0) return 0;
  const long number = std::strtol(device + 5, nullptr, 10);  // what is no index, the heap refuses
  return number > 0 && number < INT_MAX ? static_cast<int>(number) : 0;
}

std::uint64_t emulated_capacity_bytes() {
  const char* device = secure_getenv("TERRACE_GPU");
  if (device == nullptr || !heap_is_emulated()) return 0;
  const char* text = device + std::strlen(emulated_prefix);
  char size[32] = "";
  const std::size_t length = std::strcspn(text, ",");
  std::uint64_t bytes = 0;
  if (length < sizeof(size)) std::memcpy(size, text, length);
  return wire::read_size(size, &bytes) == 0 ? bytes : 0;
}

bool heap_is_wanted() {
  std::call_once(environment_once, [] { wanted = read_environment(); });
  return wanted;
}

const HeapLibrary* heap_library() {
  if (!heap_is_wanted()) return nullptr;
  std::call_once(library_once, [] { opened = open_library(&library); });
  return opened ? &library : nullptr;
}

}  // namespace terrace::liballoc::gpu
