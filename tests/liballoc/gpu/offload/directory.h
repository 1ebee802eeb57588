// A directory on a drive for one test's pool file, and the user's state directory with the drive's record in
// it.
#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "tiers/records/state_directory.h"

namespace terrace::liballoc::offload::test {

class Directory {
 public:
  explicit Directory(const std::string& parent = TERRACE_TEST_POOL_DIR)
      : path_(parent + "/endurance-XXXXXX") {
    REQUIRE(::mkdtemp(path_.data()) != nullptr);
    ::setenv("XDG_STATE_HOME", path_.c_str(), 1);
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  const std::string& path() const { return path_; }
  std::string state() const { return path_ + "/terrace"; }
  std::string file() const { return state() + "/" + records::drive_name(path_); }

 private:
  std::string path_;
};

}  // namespace terrace::liballoc::offload::test
