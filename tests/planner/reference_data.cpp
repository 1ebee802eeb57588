#include "tests/planner/reference_data.h"

#include <zlib.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>

namespace terrace::planner::test {
namespace {

// gzread() hands plain files through as they are.
std::optional<std::string> unpacked(const std::string& path) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rbe"), gzclose);
  if (file == nullptr) return std::nullopt;
  std::string text;
  std::vector<char> buffer(std::size_t{1} << 20);
  for (int n = 0; (n = gzread(file.get(), buffer.data(), static_cast<unsigned>(buffer.size()))) != 0;) {
    if (n < 0) return std::nullopt;
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
  return text;
}

}  // namespace

std::optional<std::string> reference_data(const std::string& name) {
  const char* chosen = std::getenv("TERRACE_REFERENCE_DATA");
  const std::string path = std::string(chosen != nullptr ? chosen : TERRACE_REFERENCE_DATA) + "/" + name;
  std::optional<std::string> text = unpacked(path);
  if (!text) std::printf("SKIP: no reference data at %s\n", path.c_str());
  return text;
}

std::string fixture(const std::string& name) {
  const std::optional<std::string> text = unpacked(std::string(TERRACE_FIXTURES) + "/" + name);
  INFO("fixture " << name);
  REQUIRE(text.has_value());
  return *text;
}

Instance instance_from_csv(const std::string& name, const std::string& text) {
  Instance instance{name, {}, nullptr};
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  INFO(name);
  REQUIRE(line.substr(0, 19) == "id,lower,upper,size");
  while (std::getline(lines, line)) {
    unsigned long long id = 0, lower = 0, upper = 0, bytes = 0;
    INFO(line);
    REQUIRE(std::sscanf(line.c_str(), "%llu,%llu,%llu,%llu", &id, &lower, &upper, &bytes) == 4);
    instance.buffers.push_back(
        {bytes, static_cast<std::uint32_t>(lower), static_cast<std::uint32_t>(upper), 1, no_tensor});
  }
  return instance;
}

Instance random_instance(std::uint64_t seed, std::uint32_t count, std::uint32_t end_time,
                         std::uint64_t most_bytes) {
  std::mt19937_64 random(seed);
  Instance instance{"random " + std::to_string(seed), {}, nullptr};
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto a = static_cast<std::uint32_t>(random() % end_time);
    const auto b = static_cast<std::uint32_t>(random() % end_time);
    instance.buffers.push_back({1 + random() % most_bytes, std::min(a, b), std::max(a, b) + 1, 1, no_tensor});
  }
  return instance;
}

}  // namespace terrace::planner::test
