// How long a sleeping thread takes to run once it is woken: every touch that waits for a page pays it.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "tools/cli/base/files.h"
#include "tools/cli/base/format.h"
#include "tools/cli/doctor/checks.h"

namespace terrace::cli {

namespace {

constexpr const char* halt_poll_path = "/sys/module/haltpoll/parameters/guest_halt_poll_ns";

std::int64_t steady_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

// Until the pipe is closed. Each message is the time at which it was written.
void sleep_and_count(int fd, std::vector<std::int64_t>* took) {
  std::int64_t woken_at = 0;
  while (read(fd, &woken_at, sizeof(woken_at)) == sizeof(woken_at)) took->push_back(steady_ns() - woken_at);
}

// With pauses that let the sleeper's processor become idle.
void wake_often(int fd) {
  constexpr int wake_ups = 101;
  constexpr std::int64_t pause_ns = 500'000;
  for (int n = 0; n < wake_ups; ++n) {
    for (const std::int64_t start = steady_ns(); steady_ns() - start < pause_ns;) continue;
    const std::int64_t now = steady_ns();
    if (write(fd, &now, sizeof(now)) != sizeof(now)) return;
  }
}

// The median; 0: it cannot be measured.
std::uint64_t wake_up_ns() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return 0;
  std::vector<std::int64_t> took;
  std::thread sleeper([&] { sleep_and_count(ends[0], &took); });
  wake_often(ends[1]);
  close(ends[1]);
  sleeper.join();
  close(ends[0]);
  if (took.empty()) return 0;
  const auto middle = took.begin() + static_cast<std::ptrdiff_t>(took.size() / 2);
  std::nth_element(took.begin(), middle, took.end());
  return static_cast<std::uint64_t>(std::max<std::int64_t>(*middle, 1));
}

}  // namespace

void measure_wake_up(Findings* out) {
  const std::uint64_t took_ns = wake_up_ns();
  if (took_ns == 0) return;
  const auto halt_poll_ns = read_number(halt_poll_path);
  constexpr std::uint64_t long_ns = 10'000;
  const bool halts_at_once = halt_poll_ns == 0U && took_ns >= long_ns;
  Finding finding{
      "speed",      "wake_up",
      Health::note, fmt::format("a sleeping thread runs {} after it is woken", duration_text(took_ns)),
      "",           {{"median_seconds", static_cast<double>(took_ns) / 1e9}}};
  if (halts_at_once)
    finding.remedy = fmt::format(
        "each touch that waits for a page pays it, and this virtual machine halts idle processors at once: "
        "as root, echo 200000 > {} lets them wait a while first",
        halt_poll_path);
  if (halt_poll_ns) finding.facts["halt_poll_ns"] = *halt_poll_ns;
  out->push_back(std::move(finding));
}

}  // namespace terrace::cli
