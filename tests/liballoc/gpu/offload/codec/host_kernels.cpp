// In place of cuda_kernels.cpp: the host's codecs in the turn of a stream of the fake driver.
#include <dlfcn.h>

#include "liballoc/gpu/offload/codec/codec_kernels.h"

namespace terrace::liballoc::offload {
namespace {

int call_in_turn(void* stream, void (*function)(void*), void* argument) {
  static const auto launch_host_func = reinterpret_cast<int (*)(void*, void (*)(void*), void*)>(
      dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "cuLaunchHostFunc"));
  return launch_host_func(stream, function, argument);
}

int plan(void*, void*) { return 0; }

// A workspace for each stream: its thread alone uses it.
int encode(void* stream, void* codec_call) {
  static compression::Workspace workspace;
  static_cast<CodecCall*>(codec_call)->workspace = &workspace;
  return call_in_turn(stream, encode_emulated, codec_call);
}

int decode(void* stream, void* codec_call) {
  static compression::Workspace workspace;
  static_cast<CodecCall*>(codec_call)->workspace = &workspace;
  return call_in_turn(stream, decode_emulated, codec_call);
}

std::size_t scratch_bytes(std::uint64_t) { return 4096; }

constexpr CodecKernels kernels{plan, encode, decode, scratch_bytes};

}  // namespace

const CodecKernels* cuda_kernels() { return &kernels; }

}  // namespace terrace::liballoc::offload
