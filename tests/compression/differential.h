// Decodes any bytes with every set of kernels and compares: the verdicts must be the same, and what is
// decoded, too; nothing may be read or written outside. For the tests of damage and the fuzzers.
#pragma once

#include <memory>

#include "support.h"
#include "walled.h"

namespace terrace::compression::test {

class Differential {
 public:
  static constexpr std::size_t most_bytes =
      std::size_t{5} << 18;  // of frame and of content: above what goes past the caches

  Differential();

  // What all say. `fault` is empty, or says what differs; then the verdict is the first set's.
  struct Outcome {
    FrameError error = FrameError::none;
    std::string fault;
    std::span<const std::byte> content;  // until the next call; only without an error
  };
  // A destination of what the header says is used where it has at most most_bytes; of 64 KiB otherwise.
  Outcome decode(std::span<const std::byte> frame);
  // Every block alone, of a frame whose header and table are good; nothing otherwise.
  Outcome decode_blocks(std::span<const std::byte> frame);

 private:
  // Compares what `decode_into` says and writes for each set.
  template <typename Decode>
  Outcome compare(std::size_t content_bytes, Decode decode_into);

  Walled frame_;
  std::vector<std::unique_ptr<Walled>> contents_;  // one for each set of kernels
};

}  // namespace terrace::compression::test
