// Ctrl-C as a wish instead of an end: while one of these exists, the first SIGINT or SIGTERM is only noted,
// so that what is under way can end with what it has; the second one ends the program. One at a time.
#pragma once

namespace terrace::cli {

class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  // Any thread may ask.
  static bool seen() { return number() != 0; }
  static int number();  // of the signal; 0: none
};

}  // namespace terrace::cli
