// The loops are our own, so that what a memory-bound codec is measured against is known to the last
// instruction: libc's memcpy decides by size and machine whether it goes past the caches.
#include "tools/bench/compression_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace terrace::bench {
namespace {

#ifdef __x86_64__

constexpr std::size_t line = 64;

void copy_sse2(std::byte* to, const std::byte* from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += line) {
    const auto* source = reinterpret_cast<const __m128i*>(from + i);
    auto* target = reinterpret_cast<__m128i*>(to + i);
    for (int k = 0; k < 4; ++k) _mm_stream_si128(target + k, _mm_load_si128(source + k));
  }
  _mm_sfence();
}

__attribute__((target("avx2"))) void copy_avx2(std::byte* to, const std::byte* from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += line) {
    const auto* source = reinterpret_cast<const __m256i*>(from + i);
    auto* target = reinterpret_cast<__m256i*>(to + i);
    for (int k = 0; k < 2; ++k) _mm256_stream_si256(target + k, _mm256_load_si256(source + k));
  }
  _mm_sfence();
}

__attribute__((target("avx512f"))) void copy_avx512(std::byte* to, const std::byte* from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += line)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), _mm512_load_si512(from + i));
  _mm_sfence();
}

__attribute__((target("avx2"))) std::size_t read_avx2(const std::byte* data, std::size_t bytes) {
  __m256i sums[4] = {};
  for (std::size_t i = 0; i + 2 * line <= bytes; i += 2 * line)
    for (int k = 0; k < 4; ++k)
      sums[k] = _mm256_add_epi64(sums[k], _mm256_load_si256(reinterpret_cast<const __m256i*>(data + i) + k));
  const __m256i sum =
      _mm256_add_epi64(_mm256_add_epi64(sums[0], sums[1]), _mm256_add_epi64(sums[2], sums[3]));
  std::size_t parts[4];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(parts), sum);
  return parts[0] + parts[1] + parts[2] + parts[3];
}

#endif

std::size_t read_words(const std::byte* data, std::size_t bytes) {
  std::size_t sums[4] = {};
  for (std::size_t i = 0; i + sizeof sums <= bytes; i += sizeof sums) {
    std::size_t words[4];
    std::memcpy(words, data + i, sizeof words);
    for (int k = 0; k < 4; ++k) sums[k] += words[k];
  }
  return sums[0] + sums[1] + sums[2] + sums[3];
}

constexpr std::size_t huge_page = std::size_t{2} << 20;

}  // namespace

Buffer::Buffer(std::size_t bytes) : size_((bytes + huge_page - 1) / huge_page * huge_page) {
  void* at = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) {
    std::fprintf(stderr, "bench: no %zu MiB of memory; ask for less with --size\n", size_ >> 20);
    std::exit(1);
  }
  madvise(at, size_, MADV_HUGEPAGE);  // a hint: without huge pages everything is slower alike
  data_ = static_cast<std::byte*>(at);
  std::memset(data_, 0xA5, size_);
}

Buffer::~Buffer() { munmap(data_, size_); }

std::size_t last_level_cache_bytes() {
  std::size_t largest = 0;
  for (int index = 0; index < 8; ++index) {
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
    std::size_t kib = 0;
    if (file >> kib && kib > largest) largest = kib;
  }
  return largest << 10;
}

std::vector<StreamingCopy> streaming_copies() {
  std::vector<StreamingCopy> copies;
#ifdef __x86_64__
  copies.push_back({"sse2", copy_sse2});
  if (__builtin_cpu_supports("avx2")) copies.push_back({"avx2", copy_avx2});
  if (__builtin_cpu_supports("avx512f")) copies.push_back({"avx512", copy_avx512});
#else
  copies.push_back(
      {"memcpy", [](std::byte* to, const std::byte* from, std::size_t n) { std::memcpy(to, from, n); }});
#endif
  return copies;
}

std::size_t read_all_of(std::span<const std::byte> data) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) return read_avx2(data.data(), data.size());
#endif
  return read_words(data.data(), data.size());
}

void flush_from_caches(std::span<const std::byte> data) {
#ifdef __x86_64__
  for (std::size_t i = 0; i < data.size(); i += line) _mm_clflush(data.data() + i);
  _mm_mfence();
#else
  (void)data;
#endif
}

}  // namespace terrace::bench
