// A list of directories is taken whole or not at all.
#include "liballoc/base/pool_directories.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace terrace::liballoc {
namespace {

std::vector<std::string> names(const PoolDirectories& directories) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < directories.size(); ++i) all.emplace_back(directories[i]);
  return all;
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

}  // namespace

TEST_CASE("Pool directories are split at commas, and nothing else of them is touched") {
  PoolDirectories directories;
  CHECK(names(directories) == std::vector<std::string>{"/var/tmp"});
  CHECK(directories.read("/mnt/a, b,./c:d") == nullptr);
  CHECK(names(directories) == std::vector<std::string>{"/mnt/a", " b", "./c:d"});
  CHECK(directories.read("/one") == nullptr);
  CHECK(names(directories) == std::vector<std::string>{"/one"});
}

TEST_CASE("A list of pool directories with a fault changes nothing and says what helps") {
  PoolDirectories directories;
  REQUIRE(directories.read("/a,/b") == nullptr);
  const auto is_kept = [&] { return names(directories) == std::vector<std::string>{"/a", "/b"}; };
  for (const char* text : {"", ",", "/x,", ",/x", "/x,,/y", "/x,/y,"}) {
    INFO(text);
    CHECK(directories.read(text) == PoolDirectories::missing_one);
    CHECK(is_kept());
  }
  CHECK(directories.read((repeated("/x,", 8) + "/x").c_str()) == PoolDirectories::too_many);
  CHECK(is_kept());
  CHECK(directories.read(("/x," + std::string(512, '/')).c_str()) == PoolDirectories::too_long);
  CHECK(is_kept());
}

TEST_CASE("As many pool directories as there may be, as long as they may be") {
  PoolDirectories directories;
  const std::string longest(511, 'd');
  CHECK(directories.read((repeated(longest + ",", 7) + longest).c_str()) == nullptr);
  CHECK(names(directories) == std::vector<std::string>(8, longest));
}

}  // namespace terrace::liballoc
