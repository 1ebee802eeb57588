// The threads of the stress program: random steps on blocks of their own, each of which checks what it looks
// at. verify.cpp says what is mixed with what, and why; this is the part that a forked child runs, too.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace terrace::stress {

inline constexpr std::size_t smallest_block = std::size_t{256} * 1024;
inline constexpr std::size_t largest_block = 64UL << 20;

struct Settings {
  double seconds = 10;
  unsigned threads = 4;
  std::uint64_t seed = 1;
  std::uint64_t bytes = 512UL << 20;
  std::string json;
};

enum Count {
  allocated,
  freed,
  resized,
  zeroed,
  pages_read,
  pages_written,
  advised,
  pinned,
  forked,
  forked_all,
  spawned,
  counts
};
inline constexpr std::array<const char*, counts> count_names = {
    "allocated", "freed",  "resized", "zeroed",     "pages_read", "pages_written",
    "advised",   "pinned", "forked",  "forked_all", "spawned"};

// Runs the threads for settings.seconds, or until SIGTERM. Ends the process with status 1 at the first wrong
// byte.
void run(const Settings& settings);
// How often something was done, over all threads.
std::uint64_t total(Count which);

}  // namespace terrace::stress
