// A libcufile.so.0 over pread and pwrite on memory that the host can reach: what the emulated device's is.
// The environment says what it does wrong.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "tiers/gpu/cufile_abi.h"

using terrace::tiers::gpu::CufileDescription;
using terrace::tiers::gpu::CufileError;

namespace {

bool fault(const char* what) {
  const char* const set = std::getenv("FAKE_CUFILE");
  return set != nullptr && std::strcmp(set, what) == 0;
}

constexpr unsigned slow_us = 100'000;
constexpr std::size_t header_sum_at = 56;  // docs/formats/frame.md

// A handle is the descriptor, one higher: descriptor 0 is no null pointer then.
int descriptor(void* file) { return static_cast<int>(reinterpret_cast<std::intptr_t>(file)) - 1; }

// A block of the file, whose descriptor takes whole ones only.
void damage(int file, off_t at) {
  alignas(4096) static char block[4096];
  at = at / 4096 * 4096;
  if (pread(file, block, sizeof(block), at) != sizeof(block)) std::abort();
  block[0] ^= 1;
  if (pwrite(file, block, sizeof(block), at) != sizeof(block)) std::abort();
}

}  // namespace

extern "C" {

CufileError cuFileDriverOpen() {
  if (fault("no driver")) return {5001, 0};
  return fault("open already") ? CufileError{5026, 0} : CufileError{0, 0};
}

CufileError cuFileHandleRegister(void** file, CufileDescription* description) {
  if (fault("no file") || description->type != 1 || description->operations != nullptr) return {5008, 0};
  *file = reinterpret_cast<void*>(static_cast<std::intptr_t>(description->handle.fd) + 1);
  return {0, 0};
}
void cuFileHandleDeregister(void*) {}

CufileError cuFileBufRegister(const void*, std::size_t, int flags) {
  return flags == 0 ? CufileError{0, 0} : CufileError{5009, 0};
}
CufileError cuFileBufDeregister(const void*) { return {0, 0}; }

ssize_t cuFileRead(void* file, void* device, std::size_t bytes, off_t file_at, off_t device_at) {
  if (fault("failing read")) return -5011;
  if (fault("short read")) bytes /= 2;
  if (fault("slow")) usleep(slow_us);
  char* const to = static_cast<char*>(device) + device_at;
  const ssize_t moved = pread(descriptor(file), to, bytes, file_at);
  if (fault("damaged read")) to[bytes / 2] ^= 1;
  if (fault("damaged beginning")) to[header_sum_at] ^= 1;
  return moved;
}

ssize_t cuFileWrite(void* file, const void* device, std::size_t bytes, off_t file_at, off_t device_at) {
  if (fault("lost write")) return static_cast<ssize_t>(bytes);
  if (fault("short write")) bytes /= 2;
  if (fault("slow")) usleep(slow_us);
  const char* const from = static_cast<const char*>(device) + device_at;
  const ssize_t moved = pwrite(descriptor(file), from, bytes, file_at);
  if (fault("damaged write")) damage(descriptor(file), file_at + static_cast<off_t>(bytes / 2));
  return moved;
}

}  // extern "C"
