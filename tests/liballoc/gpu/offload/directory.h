// A directory on a drive for one test's pool file and its endurance ledger.
#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "liballoc/gpu/offload/endurance_ledger.h"

namespace terrace::liballoc::offload::test {

class Directory {
 public:
  explicit Directory(const std::string& parent = TERRACE_TEST_POOL_DIR)
      : path_(parent + "/endurance-XXXXXX") {
    REQUIRE(::mkdtemp(path_.data()) != nullptr);
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  const std::string& path() const { return path_; }
  std::string file() const { return path_ + "/" + EnduranceLedger::file_name; }

 private:
  std::string path_;
};

}  // namespace terrace::liballoc::offload::test
