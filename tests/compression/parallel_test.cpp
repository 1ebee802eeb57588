// Many threads write the bytes that one writes, and read what one reads; damage is found by all alike.
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <system_error>
#include <thread>
#include <vector>

#include "compression/external_codecs.h"
#include "compression/parallel/parallel.h"

namespace terrace::compression {
namespace {

using Bytes = std::vector<std::byte>;

// Blocks of every kind: zero, dense, one element repeated, and of all densities between.
Bytes mixed_content(std::size_t bytes) {
  std::mt19937_64 random(11);
  std::vector<std::uint32_t> elements(bytes / 4);
  constexpr std::size_t per_block = block_bytes / 4;
  for (std::size_t first = 0; first < elements.size(); first += per_block) {
    const std::uint64_t percent = random() % 5 == 0 ? random() % 2 * 100 : random() % 100;
    const bool repeated = random() % 10 == 0;
    for (std::size_t i = first; i < std::min(elements.size(), first + per_block); ++i)
      elements[i] = repeated ? 7 : random() % 100 < percent ? static_cast<std::uint32_t>(random()) | 1 : 0;
  }
  Bytes content(elements.size() * 4);
  if (!content.empty()) std::memcpy(content.data(), elements.data(), content.size());
  return content;
}

Bytes frame_room(const Bytes& content, unsigned alignment_log2) {
  return Bytes(frame_bound(content.size(), alignment_log2), std::byte{0xee});
}

Bytes by_one_thread(const Bytes& content, const FrameOptions& options, CodecSet codecs = own_codecs,
                    const Kernels& with = kernels()) {
  const auto workspace = std::make_unique<Workspace>();
  Bytes frame = frame_room(content, options.alignment_log2);
  const Compressed result = compress(content, frame, options, *workspace, codecs, with);
  REQUIRE(result.error == FrameError::none);
  frame.resize(result.bytes);
  return frame;
}

Bytes by(ParallelCompressor& crew, const Bytes& content, const FrameOptions& options,
         CodecSet codecs = own_codecs, const Kernels& with = kernels()) {
  Bytes frame = frame_room(content, options.alignment_log2);
  const Compressed result = crew.compress(content, frame, options, codecs, with);
  REQUIRE(result.error == FrameError::none);
  frame.resize(result.bytes);
  return frame;
}

void check_same(ParallelCompressor& crew, const Bytes& content, const FrameOptions& options,
                CodecSet codecs = own_codecs, const Kernels& with = kernels()) {
  INFO(crew.threads() << " threads, " << name_of(options.codec) << " of " << name_of(options.element) << ", "
                      << with.name << ", " << content.size() << " bytes");
  const Bytes frame = by_one_thread(content, options, codecs, with);
  CHECK((by(crew, content, options, codecs, with) == frame));
  Bytes back(content.size());
  CHECK(crew.decompress(frame, back, codecs, with) == FrameError::none);
  CHECK((back == content));
}

constexpr std::size_t large =
    80 * block_bytes + 12;  // above what one thread does alone, and the last block is short

// A codec that keeps the first half of a block, and does something else with one block of all, which begins
// with a byte of its own.
constexpr std::byte ordinary{1}, special{2};
std::atomic<int> special_calls = 0;

Bytes with_a_special_block(std::size_t which) {
  Bytes content = mixed_content(large);
  for (std::size_t at = 0; at < content.size(); at += block_bytes) {
    content[at] = at / block_bytes == which ? special : ordinary;
    content[at + 4] = std::byte{3};  // neither zero nor one element repeated
  }
  return content;
}

BlockCodec::Encoded half_of(std::span<const std::byte> content, Workspace& workspace) {
  std::memcpy(workspace.coded(), content.data(), content.size() / 2);
  return {BlockKind::coded, content.size() / 2};
}

// Whoever comes first is suspended until somebody else has come. False if nobody did.
bool is_suspended_until_another_comes() {
  if (special_calls++ != 0) return false;
  for (int looks = 0; looks < 20'000 && special_calls < 2; ++looks)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return true;
}

BlockCodec::Encoded halve(const Kernels&, ElementType, std::span<const std::byte> content,
                          Workspace& workspace) {
  if (content.front() == special) is_suspended_until_another_comes();
  return half_of(content, workspace);
}

// As a codec that falls back to another way of coding: the block has two sizes.
BlockCodec::Encoded halve_or_keep(const Kernels&, ElementType, std::span<const std::byte> content,
                                  Workspace& workspace) {
  if (content.front() != special || !is_suspended_until_another_comes()) return half_of(content, workspace);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the other one hands on what it has
  return {};
}

BlockCodec::Encoded halve_or_fail(const Kernels&, ElementType, std::span<const std::byte> content,
                                  Workspace& workspace) {
  if (content.front() == special) return {.failed = true};
  return half_of(content, workspace);
}

const BlockCodec* halving(Codec) {
  static constexpr BlockCodec codec{Codec::lz4, halve, nullptr};
  return &codec;
}
const BlockCodec* halving_or_keeping(Codec) {
  static constexpr BlockCodec codec{Codec::lz4, halve_or_keep, nullptr};
  return &codec;
}
const BlockCodec* halving_or_failing(Codec) {
  static constexpr BlockCodec codec{Codec::lz4, halve_or_fail, nullptr};
  return &codec;
}

constexpr FrameOptions as_lz4{.codec = Codec::lz4, .element = ElementType::u32, .alignment_log2 = 4};

// Leaves this process room for some threads, but not for sixteen.
void leave_little_address_space() {
  constexpr std::size_t stack = std::size_t{64} << 20;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack);
  pthread_setattr_default_np(&attributes);
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t room = pages * static_cast<std::size_t>(getpagesize()) + 6 * stack;
  const rlimit limit{room, room};
  setrlimit(RLIMIT_AS, &limit);
}

enum Outcome { threw = 3, made = 4, threw_something_else = 5 };

// In a process of its own, which has no other way out than these.
Outcome make_a_crew_with_little_address_space() {
  leave_little_address_space();
  try {
    const ParallelCompressor crew(16);
    return made;
  } catch (const std::system_error&) {
    return threw;
  } catch (...) {
    return threw_something_else;
  }
}

}  // namespace

TEST_CASE("A thread that does not start is an exception, and those that did start end") {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(make_a_crew_with_little_address_space());
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == threw);
}

TEST_CASE("Any number of threads writes the same frame and reads it back") {
  const Bytes content = mixed_content(large);
  for (unsigned threads = 1; threads <= 8; ++threads) {
    ParallelCompressor crew(threads);
    CHECK(crew.threads() == threads);
    for (const Codec codec : {Codec::zvc, Codec::zvc_exp, Codec::rle, Codec::csr8, Codec::raw})
      check_same(crew, content, {.codec = codec, .element = ElementType::f32, .alignment_log2 = 4});
  }
}

TEST_CASE("A crew writes the same frame of every element type by every codec and set of kernels") {
  const Bytes content = mixed_content(20 * block_bytes + 8);
  ParallelCompressor crew(3);
  for (int codec = 0; codec < codec_count; ++codec)
    for (const ElementType element : {ElementType::u8, ElementType::bf16, ElementType::f32, ElementType::f64})
      for (const Kernels* with : all_kernels())
        check_same(crew, content, {.codec = static_cast<Codec>(codec), .element = element}, all_codecs,
                   *with);
}

TEST_CASE("A block whose thread is suspended is done by another one, to the same frame") {
  const Bytes content = with_a_special_block(30);
  special_calls = 1;
  const Bytes frame = by_one_thread(content, as_lz4, halving);
  special_calls = 0;
  ParallelCompressor crew(3);
  CHECK((by(crew, content, as_lz4, halving) == frame));
  CHECK(special_calls >= 2);
}

TEST_CASE("A block that comes out in two sizes is an error, or one of them in a good frame") {
  const Bytes content = with_a_special_block(30);
  ParallelCompressor crew(3);
  special_calls = 0;
  Bytes frame = frame_room(content, 4);
  const Compressed made = crew.compress(content, frame, as_lz4, halving_or_keeping);
  CHECK(special_calls >= 2);
  Header header;
  if (made.error == FrameError::none) {
    REQUIRE(read_header(frame, header) == FrameError::none);
    CHECK(check_table(frame, header) == FrameError::none);
  } else {
    CHECK(made.error == FrameError::codec_failed);
  }
}

TEST_CASE("A codec that fails is an error for any number of threads, and no error afterwards") {
  for (const unsigned threads : {1U, 2U, 5U, 48U}) {
    ParallelCompressor crew(threads);
    for (const std::size_t which : {std::size_t{0}, std::size_t{30}, large / block_bytes}) {
      INFO(threads << " threads, block " << which);
      const Bytes content = with_a_special_block(which);
      Bytes frame = frame_room(content, 4);
      CHECK(crew.compress(content, frame, as_lz4, halving_or_failing).error == FrameError::codec_failed);
      check_same(crew, content, {.codec = Codec::zvc, .element = ElementType::f32});
    }
  }
}

TEST_CASE("A codec that fails on a small tensor is an error") {
  Bytes content = with_a_special_block(1);
  content.resize(2 * block_bytes);
  Bytes frame = frame_room(content, 4);
  CHECK(compress(content, frame, as_lz4, *std::make_unique<Workspace>(), halving_or_failing).error ==
        FrameError::codec_failed);
}

// Most of them are suspended at any time, some in the middle of a block that the others then do in their
// stead.
TEST_CASE("A crew larger than the machine writes the same frame, again and again") {
  const Bytes content = mixed_content(4 * large);
  const FrameOptions options{.codec = Codec::zvc, .element = ElementType::f32, .alignment_log2 = 4};
  const Bytes frame = by_one_thread(content, options);
  ParallelCompressor crew(48);
  for (int i = 0; i < 20; ++i) REQUIRE((by(crew, content, options) == frame));
}

TEST_CASE("A crew does one tensor after another, small ones and none between") {
  ParallelCompressor crew(3);
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{4}, large, block_bytes, 17 * block_bytes, large})
    check_same(crew, mixed_content(bytes),
               {.codec = Codec::zvc, .element = ElementType::f32, .alignment_log2 = 12});
}

TEST_CASE("A crew has at least one thread and at most its maximum") {
  CHECK(ParallelCompressor(0).threads() == 1);
  CHECK(ParallelCompressor(100000).threads() == ParallelCompressor::max_threads);
}

TEST_CASE("A crew finds what is wrong") {
  ParallelCompressor crew(4);
  const Bytes content = mixed_content(large);
  const FrameOptions options{.codec = Codec::zvc, .element = ElementType::f32, .alignment_log2 = 4};
  Bytes frame = by_one_thread(content, options);
  Bytes back(content.size());
  Bytes small(100);
  CHECK(crew.compress(content, small, options).error == FrameError::too_small);
  CHECK(crew.decompress(frame, std::span(back).first(content.size() - 4)) == FrameError::wrong_size);
  CHECK(crew.decompress(std::span(frame).first(frame.size() - 1), back) == FrameError::truncated);
  Bytes room = frame_room(content, 4);
  CHECK(crew.compress(content, room, {.codec = Codec::lz4}).error == FrameError::codec_missing);
  frame[frame.size() - 20] ^= std::byte{1};
  CHECK(crew.decompress(frame, back) == FrameError::bad_block);
}

}  // namespace terrace::compression
