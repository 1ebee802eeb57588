#include "liballoc/gpu/preload/block_table.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>

using terrace::liballoc::gpu::Block;
using terrace::liballoc::gpu::BlockTable;

TEST_CASE("AnEmptyTableKnowsNothing") {
  BlockTable table;
  Block block;
  CHECK_FALSE(table.find(512, &block));
  CHECK_FALSE(table.take(512, &block));
  CHECK_FALSE(table.find(0, &block));
}

TEST_CASE("ABlockIsTakenOnce") {
  BlockTable table;
  REQUIRE(table.insert({4096, 100, 3}));
  Block block;
  CHECK(table.find(4096, &block));
  CHECK(block.bytes == 100);
  CHECK(block.device == 3);
  CHECK(table.take(4096, &block));
  CHECK_FALSE(table.take(4096, &block));
  CHECK(table.size() == 0);
}

TEST_CASE("OnlyTheStartOfABlockIsABlock") {
  BlockTable table;
  REQUIRE(table.insert({4096, 4096, 0}));
  Block block;
  CHECK_FALSE(table.find(4097, &block));
  CHECK_FALSE(table.find(4608, &block));
}

// Against std::map, through growth and the shifting back that deletion does.
TEST_CASE("AnyOrderOfInsertingAndTakingIsKept") {
  BlockTable table;
  std::map<std::uintptr_t, std::size_t> model;
  std::mt19937_64 random(20);
  for (int step = 0; step < 200'000; ++step) {
    const std::uintptr_t address = 512 * (1 + random() % 3000);
    Block block;
    const auto known = model.find(address);
    const bool found = table.find(address, &block);
    REQUIRE(found == (known != model.end()));
    if (found) REQUIRE(block.bytes == known->second);
    if (found) {
      REQUIRE(table.take(address, &block));
      model.erase(known);
    } else if (model.size() < 2000) {
      REQUIRE(table.insert({address, static_cast<std::size_t>(step), 0}));
      model[address] = static_cast<std::size_t>(step);
    }
  }
  CHECK(table.size() == model.size());
  for (const auto& [address, bytes] : model) {
    Block block;
    REQUIRE(table.find(address, &block));
    CHECK(block.bytes == bytes);
  }
}
