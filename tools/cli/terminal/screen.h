// The terminal as a full screen: entered in the constructor, given back in the destructor and on every signal
// that ends or stops the program, so that a shell never inherits it half changed.
#pragma once

#include <termios.h>

#include <string>
#include <vector>

namespace terrace::cli {

struct ScreenSize {
  int columns = 80;
  int lines = 24;
};

class Screen {
 public:
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  static bool available();  // standard input and output are terminals
  ScreenSize size() const;
  // Draws over what is there, without clearing first: no flicker. Lines must fit the width.
  void draw(const std::vector<std::string>& lines) const;
  // Waits for a key, at most `seconds`; 0 when none came (time over, or the window changed).
  char wait_key(double seconds);
  // A signal asked us to end.
  bool ending() const;

 private:
  void enter();
  void leave();
  void stop_if_asked();

  termios before_{};
};

}  // namespace terrace::cli
