// Content of more than 4 GiB and 2^32 elements, dense for the most part, so that offsets in the frame pass
// 2^32 bytes as well. The content is one file of 64 MiB and one block mapped again and again; the frame is
// real memory.
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstring>

#include "support.h"

namespace terrace::compression::test {
namespace {

constexpr std::size_t gib = std::size_t{1} << 30;
constexpr std::size_t tile = (std::size_t{64} << 20) + block_bytes;

// One file of a tile's size behind every tile of a range of addresses.
class Tiled {
 public:
  explicit Tiled(std::size_t tiles) : bytes_(tiles * tile) {
    const int file = ::memfd_create("tile", MFD_CLOEXEC);
    REQUIRE(file >= 0);
    REQUIRE(::ftruncate(file, tile) == 0);
    void* at = ::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(at != MAP_FAILED);
    base_ = static_cast<std::byte*>(at);
    for (std::size_t i = 0; i < tiles; ++i)
      REQUIRE(::mmap(base_ + i * tile, tile, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) !=
              MAP_FAILED);
    ::close(file);
  }
  ~Tiled() { ::munmap(base_, bytes_); }
  Tiled(const Tiled&) = delete;
  Tiled& operator=(const Tiled&) = delete;
  std::span<std::byte> span() const { return {base_, bytes_}; }

 private:
  std::byte* base_;
  std::size_t bytes_;
};

class Anonymous {
 public:
  explicit Anonymous(std::size_t bytes) : bytes_(bytes) {
    void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(at != MAP_FAILED);
    base_ = static_cast<std::byte*>(at);
  }
  ~Anonymous() { ::munmap(base_, bytes_); }
  Anonymous(const Anonymous&) = delete;
  Anonymous& operator=(const Anonymous&) = delete;
  std::span<std::byte> span() const { return {base_, bytes_}; }

 private:
  std::byte* base_;
  std::size_t bytes_;
};

std::size_t available_bytes() {
  std::FILE* file = std::fopen("/proc/meminfo", "re");
  if (file == nullptr) return 0;
  std::size_t kib = 0;
  char line[128];
  while (kib == 0 && std::fgets(line, sizeof line, file) != nullptr)
    if (std::sscanf(line, "MemAvailable: %zu kB", &kib) != 1) kib = 0;
  std::fclose(file);
  return kib << 10;
}

TEST_CASE("MoreThanFourGibibytesComeBack") {
  if (available_bytes() < 16 * gib) {
    std::printf("SKIP: less than 16 GiB of memory are available\n");
    return;
  }
  const Tiled content(65), back(65);
  REQUIRE(content.span().size() > 4 * gib + 64 * block_bytes);
  std::mt19937_64 random(1);
  const Bytes dense = random_content(ElementType::u8, tile - block_bytes, 1000, random);
  const Bytes sparse = random_content(ElementType::u8, block_bytes, 300, random);
  std::copy(dense.begin(), dense.end(), content.span().begin());
  std::copy(sparse.begin(), sparse.end(), content.span().begin() + static_cast<std::ptrdiff_t>(dense.size()));
  const Anonymous frame(frame_bound(content.span().size(), 12));
  const Compressed made =
      compress(content.span(), frame.span(), {Codec::zvc, ElementType::u8, 12}, workspace());
  REQUIRE(made.error == FrameError::none);
  Header header;
  REQUIRE(read_header(frame.span(), header) == FrameError::none);
  REQUIRE(check_table(frame.span(), header) == FrameError::none);
  const Entry last = read_entry(frame.span(), header.blocks() - 1);
  CHECK(last.kind == BlockKind::coded);
  CHECK(last.offset() > 4 * gib);
  REQUIRE(decompress(frame.span().first(made.bytes), back.span(), workspace()) == FrameError::none);
  CHECK(std::memcmp(back.span().data(), content.span().data(), tile) == 0);
  Bytes block(block_bytes);
  for (std::uint64_t i = 0; i < header.blocks();
       i += 509) {  // prime to the blocks of a tile: every place of it
    REQUIRE(decompress_block(frame.span(), header, i, block, workspace()) == FrameError::none);
    REQUIRE(std::memcmp(block.data(), content.span().data() + i * block_bytes, block_bytes) == 0);
  }
}

}  // namespace
}  // namespace terrace::compression::test
