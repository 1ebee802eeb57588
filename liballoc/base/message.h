// One line of text for standard error, built without stdio: the library may be inside malloc, in a forked
// child, or on the agent thread, where printf could allocate or wait for a lock.
//
//   Message(Severity::warning) << "pool " << directory << " is full, data stays in DRAM";
//
// The line is written when the temporary dies, in one write(2), prefixed with "terrace: ".
#pragma once

#include <cstdint>

namespace terrace::liballoc {

enum class Severity : std::uint8_t { error, warning, info, debug };

void set_log_level(Severity level);

class Message {
 public:
  explicit Message(Severity severity);
  ~Message();
  Message(const Message&) = delete;
  Message& operator=(const Message&) = delete;

  Message& operator<<(const char* text);
  Message& operator<<(std::uint64_t value);
  Message& operator<<(const void* address);
  // "errno 28 (ENOSPC)"
  Message& error(int errno_value);
  // "2.0 GiB"
  Message& bytes(std::uint64_t value);

 private:
  void put(char c);
  Severity severity_;
  unsigned used_ = 0;
  char text_[480];
};

}  // namespace terrace::liballoc
