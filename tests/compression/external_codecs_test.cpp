// The codecs of other libraries when memory is short: zstd's contexts are made here, or not.
#include <dlfcn.h>
#include <zstd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "compression/external_codecs.h"
#include "compression/parallel/parallel.h"

namespace {

// Which of the contexts asked for from now on is the first, and which the last that cannot be had.
std::atomic<int> asked_for = 0, none_from = 0, none_to = -1;

bool is_refused() {
  const int which = asked_for++;
  return which >= none_from && which <= none_to;
}

void refuse(int from, int to) {
  asked_for = 0;
  none_from = from;
  none_to = to;
}

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" ZSTD_CCtx* ZSTD_createCCtx() {
  static const auto real = next<ZSTD_CCtx* (*)()>("ZSTD_createCCtx");
  return is_refused() ? nullptr : real();
}
extern "C" ZSTD_DCtx* ZSTD_createDCtx() {
  static const auto real = next<ZSTD_DCtx* (*)()>("ZSTD_createDCtx");
  return is_refused() ? nullptr : real();
}

namespace terrace::compression {
namespace {

using Bytes = std::vector<std::byte>;

constexpr FrameOptions by_zstd{.codec = Codec::zstd, .element = ElementType::u32};

Bytes compressible(std::size_t bytes) {
  Bytes content(bytes);
  std::uint64_t state = 1;
  for (std::size_t at = 0; at + 4 <= bytes; at += 4) {
    state = state * 6364136223846793005 + 1442695040888963407;
    const auto value = state >> 62 == 0 ? static_cast<std::uint32_t>(state >> 30) : 0;
    std::memcpy(&content[at], &value, 4);
  }
  return content;
}

// zstd's contexts belong to threads: these have none yet.
template <typename Work>
void in_a_new_thread(const Work& work) {
  std::thread(work).join();
  refuse(0, -1);
}

}  // namespace

TEST_CASE("Where zstd has no memory to compress that is said, and the next attempt is a new one") {
  const Bytes content = compressible(GENERATE(2 * block_bytes, 40 * block_bytes));
  Compressed without, with;
  Bytes frame(frame_bound(content.size()));
  in_a_new_thread([&] {
    const auto workspace = std::make_unique<Workspace>();
    refuse(0, 0);
    without = compress(content, frame, by_zstd, *workspace, all_codecs);
    with = compress(content, frame, by_zstd, *workspace, all_codecs);
  });
  CHECK(without.error == FrameError::codec_failed);
  CHECK(with.error == FrameError::none);
  CHECK(with.bytes < content.size() / 2);
}

TEST_CASE("Where zstd has no memory to decompress the frame is not called damaged") {
  const Bytes content = compressible(2 * block_bytes);
  const auto workspace = std::make_unique<Workspace>();
  Bytes frame(frame_bound(content.size())), back(content.size());
  const Compressed made = compress(content, frame, by_zstd, *workspace, all_codecs);
  REQUIRE(made.error == FrameError::none);
  FrameError without{}, with{};
  in_a_new_thread([&] {
    refuse(0, 0);
    without = decompress(std::span(frame).first(made.bytes), back, *workspace, all_codecs);
    with = decompress(std::span(frame).first(made.bytes), back, *workspace, all_codecs);
  });
  CHECK(without == FrameError::codec_failed);
  CHECK(with == FrameError::none);
  CHECK((back == content));
}

TEST_CASE("A crew of which one thread has no memory for zstd makes a frame or says that it did not") {
  const Bytes content = compressible(std::size_t{8} << 20);
  const auto workspace = std::make_unique<Workspace>();
  for (int which = 0; which < 4; ++which) {
    ParallelCompressor crew(4);
    refuse(which, which);
    int failed = 0;
    for (int attempt = 0; attempt < 3; ++attempt) {
      Bytes frame(frame_bound(content.size())), back(content.size());
      const Compressed made = crew.compress(content, frame, by_zstd, all_codecs);
      failed += made.error == FrameError::codec_failed ? 1 : 0;
      if (made.error != FrameError::none) continue;
      CHECK(decompress(std::span(frame).first(made.bytes), back, *workspace, all_codecs) == FrameError::none);
      CHECK((back == content));
    }
    CHECK(failed <= 1);  // one thread, once
  }
  refuse(0, -1);
}

}  // namespace terrace::compression
