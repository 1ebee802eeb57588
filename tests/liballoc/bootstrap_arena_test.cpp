#include "liballoc/heap/bootstrap_arena.h"

#include <catch2/catch.hpp>
#include <vector>

namespace terrace::liballoc {
namespace {

struct Arena {
  std::vector<std::byte> memory = std::vector<std::byte>(BootstrapArena::bytes + 4096);
  BootstrapArena arena;
  Arena() {
    const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
    arena.begin(memory.data() + (4096 - at % 4096));
  }
};

}  // namespace

TEST_CASE("ArenaBlocksAreAlignedAndKnowTheirSize") {
  Arena a;
  for (const std::size_t alignment : {1U, 16U, 64U, 4096U}) {
    void* const block = a.arena.allocate(100, alignment);
    REQUIRE(block != nullptr);
    CHECK(reinterpret_cast<std::uintptr_t>(block) % alignment == 0);
    CHECK(BootstrapArena::usable_bytes(block) == 100);
    CHECK(a.arena.owns(block));
  }
}

TEST_CASE("AFullArenaRefuses") {
  Arena a;
  CHECK(a.arena.allocate(BootstrapArena::bytes, 16) == nullptr);
  CHECK(a.arena.allocate(SIZE_MAX, 16) == nullptr);
  CHECK(a.arena.allocate(BootstrapArena::bytes - 16, 16) != nullptr);
  CHECK(a.arena.allocate(1, 16) == nullptr);
}

}  // namespace terrace::liballoc
