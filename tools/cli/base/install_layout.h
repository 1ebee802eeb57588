// Where the other parts of Terrace lie, seen from the `terrace` binary: the same search serves the build tree
// (bin/ beside lib/) and an installation (bin/ beside lib/<triplet>/terrace), so nothing needs configuring.
#pragma once

#include <filesystem>
#include <string>

#include "liballoc/wire/result.h"

namespace terrace::cli {

class InstallLayout {
 public:
  explicit InstallLayout(std::filesystem::path binary_directory) : bin_(std::move(binary_directory)) {}
  // Of the running binary.
  static InstallLayout of_this_program();

  Result<std::filesystem::path> preload() const;           // libterrace_preload.so
  Result<std::filesystem::path> gpu_preload() const;       // libterrace_gpu_preload.so
  Result<std::filesystem::path> python_directory() const;  // what PYTHONPATH gets: holds sitecustomize.py
  Result<std::filesystem::path> daemon() const;            // terraced
  Result<std::filesystem::path> share(const char* file) const;  // "bench/training.py"
  const std::filesystem::path& bin() const { return bin_; }

 private:
  Result<std::filesystem::path> library(const char* file) const;
  std::filesystem::path bin_;
};

}  // namespace terrace::cli
