// A file system of a test's own, in a file: ext4, with or without encryption. It takes root, loop devices and
// mkfs.ext4; a test without them is skipped.
#pragma once

#include <sys/mount.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>

#include "tests/daemon/temporary_directory.h"

namespace terrace::tests {

class LoopFileSystem {
 public:
  explicit LoopFileSystem(bool can_encrypt = true, std::uintmax_t bytes = std::uintmax_t{64} << 20) {
    std::filesystem::create_directory(path());
    std::ofstream(image()).close();
    std::filesystem::resize_file(image(), bytes);
    made_ = ::geteuid() == 0 &&
            run("mkfs.ext4 -q -F " + std::string(can_encrypt ? "-O encrypt " : "-O ^encrypt ") + image());
    mount();
  }
  LoopFileSystem(const LoopFileSystem&) = delete;
  LoopFileSystem& operator=(const LoopFileSystem&) = delete;
  ~LoopFileSystem() { unmount(); }

  // False, and the test is to return: the machine has none, which is said.
  bool is_there() const {
    if (!is_mounted_)
      std::cout << "SKIP: root, loop devices and mkfs.ext4 are needed for a file system to try\n";
    return is_mounted_;
  }
  bool is_mounted() const { return is_mounted_; }
  std::string path() const { return directory_ / "mounted"; }

  void mount() { is_mounted_ = made_ && run("mount -o loop " + image() + " " + path()); }
  void unmount() {
    if (is_mounted_) ::umount2(path().c_str(), MNT_DETACH);
    is_mounted_ = false;
  }

  // Whether the text is on the drive: in any block of the file system, used or not.
  bool drive_has(std::string_view text) const {
    ::sync();
    std::ifstream file(image(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    return bytes.find(text) != std::string::npos;
  }

 private:
  static bool run(const std::string& command) {
    return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
  }
  std::string image() const { return directory_ / "image"; }

  TemporaryDirectory directory_;
  bool made_ = false;
  bool is_mounted_ = false;
};

}  // namespace terrace::tests
