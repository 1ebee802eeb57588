#include "tools/cli/base/install_layout.h"

#include <fmt/format.h>

#include <initializer_list>

namespace terrace::cli {

namespace fs = std::filesystem;

namespace {

// TERRACE_TRIPLET is Debian's multiarch name ("x86_64-linux-gnu"), or "." where there is none.
Result<fs::path> first_existing(const fs::path& bin, const fs::path& file,
                                std::initializer_list<const char*> places) {
  std::error_code ignored;
  for (const char* place : places) {
    const fs::path candidate = (bin / place / file).lexically_normal();
    if (fs::exists(candidate, ignored)) return ok(candidate);
  }
  return refused<fs::path>(fmt::format("{} was not found beside {}; build or install all of Terrace",
                                       file.string(), (bin / "terrace").string()));
}

}  // namespace

InstallLayout InstallLayout::of_this_program() {
  std::error_code ignored;
  return InstallLayout(fs::read_symlink("/proc/self/exe", ignored).parent_path());
}

Result<fs::path> InstallLayout::preload() const { return library("libterrace_preload.so"); }

Result<fs::path> InstallLayout::gpu_preload() const { return library("libterrace_gpu_preload.so"); }

Result<fs::path> InstallLayout::python_directory() const {
  auto script = share("python/auto/sitecustomize.py");
  return script ? ok(script->parent_path()) : script;
}

Result<fs::path> InstallLayout::library(const char* file) const {
  return first_existing(
      bin_, file,
      {"../lib", "../lib/terrace", "../lib/" TERRACE_TRIPLET "/terrace", "../lib/" TERRACE_TRIPLET});
}

Result<fs::path> InstallLayout::daemon() const {
  return first_existing(bin_, "terraced", {".", "../sbin", "../libexec/terrace", "../lib/terrace"});
}

Result<fs::path> InstallLayout::share(const char* file) const {
  return first_existing(bin_, file, {"../share/terrace", "../../share/terrace"});
}

}  // namespace terrace::cli
