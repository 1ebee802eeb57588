// The loops are our own, so that what a memory-bound codec is measured against is known to the last
// instruction: libc's memcpy decides by size and machine whether it goes past the caches.
#include "tools/bench/compression/memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace terrace::bench {
namespace {

#ifdef __x86_64__

constexpr std::size_t line = 64;
constexpr std::size_t page = 4096;

// One core reads faster when it is told early what comes, or when it works on several pages at a time, since
// hardware prefetches within a page: copies of 12 and 13 GB/s against 9 in plain order were seen on a Xeon
// with AVX-512.
struct InOrder {
  static constexpr std::size_t pages = 1;
  static constexpr std::size_t ahead = 0;
};
struct Prefetched {
  static constexpr std::size_t pages = 1;
  static constexpr std::size_t ahead = page;
};
struct FourPages {
  static constexpr std::size_t pages = 4;
  static constexpr std::size_t ahead = 0;
};

template <typename Order>
void copy_sse2(std::byte* to, const std::byte* from, std::size_t bytes) {
  const auto copy_line = [to, from](std::size_t at) {
    const auto* source = reinterpret_cast<const __m128i*>(from + at);
    auto* target = reinterpret_cast<__m128i*>(to + at);
    for (int k = 0; k < 4; ++k) _mm_stream_si128(target + k, _mm_load_si128(source + k));
  };
  for (std::size_t i = 0; i < bytes; i += Order::pages * page) {
    for (std::size_t j = 0; j < page; j += line) {
      if constexpr (Order::ahead != 0) __builtin_prefetch(from + i + j + Order::ahead);
      for (std::size_t k = 0; k < Order::pages; ++k) copy_line(i + k * page + j);
    }
  }
  _mm_sfence();
}

// The same; a lambda would not be compiled for the wider unit.
template <typename Order>
__attribute__((target("avx512f"))) void copy_avx512(std::byte* to, const std::byte* from, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += Order::pages * page) {
    for (std::size_t j = 0; j < page; j += line) {
      if constexpr (Order::ahead != 0) __builtin_prefetch(from + i + j + Order::ahead);
      for (std::size_t at = i + j; at < i + j + Order::pages * page; at += page)
        _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at), _mm512_load_si512(from + at));
    }
  }
  _mm_sfence();
}

std::size_t read_prefetched(const std::byte* data, std::size_t bytes) {
  __m128i sums[4] = {};
  for (std::size_t i = 0; i + line <= bytes; i += line) {
    __builtin_prefetch(data + i + page / 2);
    for (int k = 0; k < 4; ++k)
      sums[k] = _mm_add_epi64(sums[k], _mm_load_si128(reinterpret_cast<const __m128i*>(data + i) + k));
  }
  const __m128i sum = _mm_add_epi64(_mm_add_epi64(sums[0], sums[1]), _mm_add_epi64(sums[2], sums[3]));
  return static_cast<std::size_t>(_mm_cvtsi128_si64(sum) + _mm_extract_epi16(sum, 4));
}

#else

std::size_t read_words(const std::byte* data, std::size_t bytes) {
  std::size_t sums[4] = {};
  for (std::size_t i = 0; i + sizeof sums <= bytes; i += sizeof sums) {
    std::size_t words[4];
    std::memcpy(words, data + i, sizeof words);
    for (int k = 0; k < 4; ++k) sums[k] += words[k];
  }
  return sums[0] + sums[1] + sums[2] + sums[3];
}

#endif

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
  copies = {{"sse2", copy_sse2<InOrder>},
            {"sse2, prefetched", copy_sse2<Prefetched>},
            {"sse2, four pages at a time", copy_sse2<FourPages>}};
  if (__builtin_cpu_supports("avx512f")) {
    copies.push_back({"avx512", copy_avx512<InOrder>});
    copies.push_back({"avx512, prefetched", copy_avx512<Prefetched>});
    copies.push_back({"avx512, four pages at a time", copy_avx512<FourPages>});
  }
#else
  copies.push_back(
      {"memcpy", [](std::byte* to, const std::byte* from, std::size_t n) { std::memcpy(to, from, n); }});
#endif
  return copies;
}

double thread_s() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::size_t read_all_of(std::span<const std::byte> data) {
#ifdef __x86_64__
  return read_prefetched(data.data(), data.size());
#else
  return read_words(data.data(), data.size());
#endif
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
