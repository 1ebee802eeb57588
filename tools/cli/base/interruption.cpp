#include "tools/cli/base/interruption.h"

#include <atomic>
#include <csignal>

namespace terrace::cli {

namespace {

// The handler may run on any thread.
std::atomic<int> signal_seen = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void note_signal(int number) { signal_seen = number; }

}  // namespace

// SA_RESETHAND: the second signal finds the default action and ends the program.
Interruption::Interruption() {
  signal_seen = 0;
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (const int number : {SIGINT, SIGTERM}) sigaction(number, &action, nullptr);
}

Interruption::~Interruption() {
  for (const int number : {SIGINT, SIGTERM}) std::signal(number, SIG_DFL);
}

int Interruption::number() { return signal_seen; }

}  // namespace terrace::cli
