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

// As a value: the same constant can have another address in another source file.
std::string fault_of(PoolDirectories& directories, const std::string& text) {
  const char* fault = directories.read(text.c_str());
  return fault == nullptr ? "" : fault;
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
    CHECK(fault_of(directories, text) == PoolDirectories::missing_one);
    CHECK(is_kept());
  }
  CHECK(fault_of(directories, repeated("/x,", 8) + "/x") == PoolDirectories::too_many);
  CHECK(is_kept());
  CHECK(fault_of(directories, "/x," + std::string(512, '/')) == PoolDirectories::too_long);
  CHECK(is_kept());
}

TEST_CASE("As many pool directories as there may be, as long as they may be") {
  PoolDirectories directories;
  const std::string longest(511, 'd');
  CHECK(directories.read((repeated(longest + ",", 7) + longest).c_str()) == nullptr);
  CHECK(names(directories) == std::vector<std::string>(8, longest));
}

}  // namespace terrace::liballoc
