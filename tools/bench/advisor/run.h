// What the advisor's benchmark measures with: codecs really run, and links: a file on a real device or a
// given rate.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compression/advisor/advisor.h"
#include "compression/compressor.h"

namespace terrace::bench {

using compression::Codec;
using compression::ElementType;

// Nanoseconds that this thread has run: time that other programs take of the core does not count.
double thread_ns();

// Page-aligned memory, for O_DIRECT, written once so that no measurement pays for its pages.
class Pages {
 public:
  explicit Pages(std::size_t bytes);
  std::span<std::byte> span() const { return {memory_.get(), bytes_}; }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::size_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
};

// Medians over the repetitions, and the repetitions.
struct CodecRun {
  std::uint64_t frame_bytes = 0;
  double compress_ns = 0, decompress_ns = 0;
  std::vector<double> compress_each_ns, decompress_each_ns;

  void add(const CodecRun& more);
};

class CodecRunner {
 public:
  explicit CodecRunner(std::size_t largest_bytes);
  // Ends the program if what comes back is not what was compressed.
  CodecRun run(Codec codec, ElementType element, std::span<const std::byte> content, int repetitions);

 private:
  Pages frame_, back_;
  std::unique_ptr<compression::Workspace> workspace_;
};

// A temporary file, unlinked at once, written and read past the page cache.
class FileLink {
 public:
  FileLink(const std::string& directory, std::size_t largest_bytes);
  ~FileLink();
  FileLink(const FileLink&) = delete;
  FileLink& operator=(const FileLink&) = delete;
  double out_ns(std::size_t bytes);  // rounded up to whole pages
  double in_ns(std::size_t bytes);

 private:
  Pages buffer_;
  int fd_;
};

// A link as the traces use it: the same time for the same bytes always.
struct FixedLink {
  std::string name;
  double latency_ns = 20'000;
  double out_gb_per_s = 1, in_gb_per_s = 1;

  double out_ns(double bytes) const { return latency_ns + bytes / out_gb_per_s; }
  double in_ns(double bytes) const { return latency_ns + bytes / in_gb_per_s; }
};

}  // namespace terrace::bench
