// Memory for `terrace bench compression`, and the plain ways of moving it that everything is compared with.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace terrace::bench {

// Pages of its own, in huge pages where the kernel gives them, touched before they are used.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  std::byte* data_;
  std::size_t size_;
};

// The largest cache of the first core; 0 where the kernel does not say.
std::size_t last_level_cache_bytes();

// A copy that goes past the caches on the writing side, so that a byte copied is a byte read and a byte
// written and no more. One form for each vector width that the machine has; which is fastest is a matter of
// the machine.
struct StreamingCopy {
  const char* name;
  void (*copy)(std::byte* to, const std::byte* from,
               std::size_t bytes);  // aligned to 64, a multiple of 16 KiB
};
std::vector<StreamingCopy> streaming_copies();

// Seconds that this thread has run: what a core takes for its work, whoever else wants the core. Memory that
// others use meanwhile still counts.
double thread_s();

// Reads everything and returns something that depends on it.
std::size_t read_all_of(std::span<const std::byte> data);

// Puts the bytes out of all caches, where the processor has an instruction for it.
void flush_from_caches(std::span<const std::byte> data);

}  // namespace terrace::bench
