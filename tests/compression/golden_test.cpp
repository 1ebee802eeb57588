// Frames that were written once, by golden/make.py and not by the library, and must be readable for ever.
// Those that the index calls "same" are also what the compressor makes of their content, bit for bit, with
// every set of kernels.
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <sstream>

#include "compression/external_codecs.h"
#include "support.h"
#include "walled.h"

namespace terrace::compression::test {
namespace {

struct Golden {
  std::string name, mode;
  std::uint64_t content_checksum = 0;
  Bytes frame;
};

Bytes read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::vector<Golden> all_golden() {
  const std::string directory = TERRACE_GOLDEN_DIR;
  std::ifstream index(directory + "/index.txt");
  std::vector<Golden> all;
  for (std::string line; std::getline(index, line);) {
    if (line.starts_with('#')) continue;
    Golden golden;
    std::istringstream(line) >> golden.name >> golden.mode >> std::hex >> golden.content_checksum;
    golden.frame = read_whole(directory + "/" + golden.name + ".trf");
    all.push_back(std::move(golden));
  }
  return all;
}

void check_golden(const Golden& golden, const Kernels& with) {
  CAPTURE(golden.name, with.name);
  Header header;
  REQUIRE(read_header(golden.frame, header) == FrameError::none);
  CHECK(header.frame_bytes() == golden.frame.size());
  const Walled frame{std::span(golden.frame)}, content(header.content_bytes);
  REQUIRE(decompress(frame.span(), content.span(), workspace(), all_codecs, with) == FrameError::none);
  CHECK(with.checksum(content.data(), content.size()) == golden.content_checksum);
  CHECK(content.holds());
  if (golden.mode == "foreign") return;  // lz4's and zstd's own releases write what they like
  const FrameOptions options{header.codec, header.element, header.alignment_log2};
  const bool same = frame.equals(compressed(content.span(), options, with).frame);
  CHECK(same == (golden.mode == "same"));
}

TEST_CASE("GoldenFramesAreReadAndWrittenAsEver") {
  const std::vector<Golden> all = all_golden();
  REQUIRE(all.size() >= 64);
  for (const Golden& golden : all)
    for (const Kernels* with : all_kernels()) check_golden(golden, *with);
}

}  // namespace
}  // namespace terrace::compression::test
