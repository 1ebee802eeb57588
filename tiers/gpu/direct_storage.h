// GPUDirect Storage: bytes go between a file and GPU memory without a stop in host memory, through NVIDIA's
// libcufile.so.0, found at run time.
//
// It is an option that has to prove itself: cuFile falls back to copies through host memory without a word
// where nvidia-fs, the file system or the GPU does not play along (kvikio issue 192), and then is slower than
// a pipeline of our own. probe_direct_storage() (direct_probe.h) therefore transfers, verifies and times
// before anything is trusted to it.
//
// Contract
//  * Any thread may call anything, except that a file is not removed while another thread uses it. Transfers
//  block
//    the calling thread. Nothing throws but open().
//  * The descriptor stays the caller's and open until remove_file(); it was opened with O_DIRECT. Addresses
//  are
//    mapped device memory, offsets and lengths multiples of 4096.
//  * 0 or errno: ENOTSUP: cuFile does not take the file, memory or platform; EIO: the transfer failed or was
//  cut
//    short; what it wrote before is undefined. error_text() has cuFile's number for the calling thread's last
//    error.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace terrace::tiers::gpu {

struct CufileTable;

class DirectStorage {
 public:
  using File = void*;  // a CUfileHandle_t

  // 0, or ENOTSUP with *reason saying what is missing and what helps. This and every transfer is called while
  // the device's CUDA context is the thread's (in_context.h).
  static int open(std::unique_ptr<DirectStorage>* out, std::string* reason,
                  const char* library = "libcufile.so.0");
  ~DirectStorage();
  DirectStorage(const DirectStorage&) = delete;
  DirectStorage& operator=(const DirectStorage&) = delete;

  int add_file(int fd, File* out) noexcept;
  void remove_file(File file) noexcept;
  // Optional: registered device memory is read and written without a bounce inside cuFile.
  int add_buffer(void* device, std::uint64_t bytes) noexcept;
  int remove_buffer(void* device) noexcept;

  int read(File file, void* device, std::uint64_t bytes, std::uint64_t offset) noexcept;
  int write(File file, const void* device, std::uint64_t bytes, std::uint64_t offset) noexcept;

  const char* error_text() const noexcept;

 private:
  explicit DirectStorage(std::unique_ptr<CufileTable> table) noexcept;
  std::unique_ptr<CufileTable> table_;
};

}  // namespace terrace::tiers::gpu
