// The directories that a pool's files lie in: "/a", or "/a,/b", as TERRACE_POOL_DIR and `terrace run --pool`
// name them. Text from outside: checked and bounded here, once for both.
//
// A comma separates, so that no name can have one; a symbolic link without it serves.
#pragma once

#include <cstddef>
#include <cstring>

namespace terrace::liballoc {

class PoolDirectories {
 public:
  static constexpr std::size_t most = 8;
  static constexpr std::size_t path_bytes = 512;
  static constexpr const char* missing_one =
      "a directory is missing before, between or after its commas; write /a,/b, and for a directory with a "
      "comma "
      "in its name a link to it";
  static constexpr const char* too_many = "more than 8 directories; name the fastest";
  static constexpr const char* too_long = "a directory with more than 511 characters; name a link to it";

  constexpr PoolDirectories() = default;

  // Whether somebody named them; else it is the default.
  bool are_named() const noexcept { return are_named_; }
  std::size_t size() const noexcept { return count_; }
  const char* operator[](std::size_t i) const noexcept { return paths_[i]; }

  // nullptr; or what is wrong and what helps, one of the texts above, and nothing has changed.
  const char* read(const char* text) noexcept {
    if (const char* problem = problem_of(text)) return problem;
    count_ = 0;
    are_named_ = true;
    for (const char* rest = text; rest != nullptr; rest = after(rest)) {
      char* path = paths_[count_++];
      std::memcpy(path, rest, length_of(rest));
      path[length_of(rest)] = '\0';
    }
    return nullptr;
  }

 private:
  static std::size_t length_of(const char* text) noexcept { return std::strcspn(text, ","); }
  // What follows the next comma, or nullptr.
  static const char* after(const char* text) noexcept {
    const char* end = text + length_of(text);
    return *end == ',' ? end + 1 : nullptr;
  }
  static const char* problem_of(const char* text) noexcept {
    std::size_t count = 0;
    for (const char* rest = text; rest != nullptr; rest = after(rest)) {
      if (length_of(rest) == 0) return missing_one;
      if (length_of(rest) >= path_bytes) return too_long;
      if (++count > most) return too_many;
    }
    return nullptr;
  }

  char paths_[most][path_bytes] = {"/var/tmp"};
  std::size_t count_ = 1;
  bool are_named_ = false;
};

}  // namespace terrace::liballoc
