#include "tools/cli/terminal/screen.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace terrace::cli {

namespace {

volatile sig_atomic_t end_asked = 0;
volatile sig_atomic_t stop_asked = 0;

void note_end(int) { end_asked = 1; }
void note_stop(int) { stop_asked = 1; }
void note_resize(int) {}  // being interrupted is all it is for

// Without SA_RESTART: poll() returns and the loop looks at the flags.
void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigaction(signal, &action, nullptr);
}

void put(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno != EINTR) return;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
}

constexpr std::string_view enter_sequence = "\033[?1049h\033[?25l\033[H\033[2J";
constexpr std::string_view leave_sequence = "\033[?25h\033[?1049l";

}  // namespace

bool Screen::available() { return isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1; }

Screen::Screen() {
  tcgetattr(STDIN_FILENO, &before_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) handle(signal, note_end);
  handle(SIGTSTP, note_stop);
  handle(SIGWINCH, note_resize);
  enter();
}

Screen::~Screen() { leave(); }

void Screen::enter() {
  termios raw = before_;
  raw.c_lflag &= static_cast<tcflag_t>(~(ICANON | ECHO));
  tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  put(enter_sequence);
}

void Screen::leave() {
  put(leave_sequence);
  tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

void Screen::stop_if_asked() {
  if (stop_asked == 0) return;
  stop_asked = 0;
  leave();
  raise(SIGSTOP);
  enter();
}

ScreenSize Screen::size() const {
  winsize found{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &found) != 0 || found.ws_col == 0 || found.ws_row == 0) return {};
  return {found.ws_col, found.ws_row};
}

void Screen::draw(const std::vector<std::string>& lines) const {
  std::string out = "\033[H";
  const auto room = static_cast<std::size_t>(size().lines);
  for (std::size_t i = 0; i < lines.size() && i < room; ++i)
    out += (i == 0 ? "" : "\r\n") + lines[i] + "\033[K";
  put(out + "\033[J");
}

char Screen::wait_key(double seconds) {
  stop_if_asked();
  pollfd input{STDIN_FILENO, POLLIN, 0};
  char key = 0;
  if (poll(&input, 1, static_cast<int>(seconds * 1000)) > 0 && read(STDIN_FILENO, &key, 1) != 1)
    end_asked = 1;
  stop_if_asked();
  return key;
}

bool Screen::ending() const { return end_asked != 0; }

}  // namespace terrace::cli
