// Any bytes as a frame, decoded by every set of kernels: same verdict, same content, nothing touched outside.
//
// A frame's checksums would stop nearly every input, so three of four have some made right first. Which, the
// input's size says: bytes behind a frame are not part of it, so that golden frames serve as they are, and
// the fuzzer can choose.
#include <cstdio>
#include <cstdlib>

#include "tests/compression/differential.h"

using namespace terrace::compression;

namespace {

void repair(std::span<std::byte> frame) {
  const std::size_t depth =
      frame.size() % 4;  // 0: everything, 1: nothing, 2: the header, 3: table and header
  if (depth == 0) test::repair_blocks(frame);
  if (depth == 0 || depth == 3) test::repair_table(frame);
  if (depth != 1) test::repair_header(frame);
}

void stop_at(const std::string& fault) {
  if (fault.empty()) return;
  std::fprintf(stderr, "%s\n", fault.c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static test::Differential differential;
  const auto input = std::as_bytes(std::span(data, size));
  test::Bytes frame(input.begin(), input.end());
  repair(frame);
  stop_at(differential.decode(frame).fault);
  stop_at(differential.decode_blocks(frame).fault);
  return 0;
}
