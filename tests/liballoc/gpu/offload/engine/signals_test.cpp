// The engine's threads take none of the program's signals: a program that blocks one, to wait for it, knows
// of its own threads only.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "tests/liballoc/gpu/offload/engine_fixture.h"

using namespace terrace::liballoc::offload::test;

namespace {

std::set<std::string> threads() {
  std::set<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    out.insert(entry.path().filename());
  return out;
}

std::string status_of(const std::string& thread, const std::string& name) {
  std::ifstream status("/proc/self/task/" + thread + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind(name + ":\t", 0) == 0) return line.substr(name.size() + 2);
  return "";
}

// One that has not run yet still has the signals blocked that libc blocks while it makes a thread.
void await_sleep(const std::string& thread) {
  while (status_of(thread, "State").rfind("S", 0) != 0) pause_ms(1);
}

// What the system, and libc for itself, let nobody block.
bool cannot_be_blocked(int signal) {
  return signal == SIGKILL || signal == SIGSTOP || (signal >= 32 && signal < SIGRTMIN);
}

}  // namespace

TEST_CASE("TheProgramsSignalsAreNotTakenByTheEnginesThreads") {
  const std::string device = GENERATE("cpu", "emulated:1G");
  CAPTURE(device);
  const auto before = threads();
  const Opened engine({.device = device.c_str(), .nvme_bytes = 64 * mib, .compress = "zvc"});
  std::set<std::string> ours;
  for (const std::string& thread : threads())
    if (!before.contains(thread)) ours.insert(thread);
  CHECK(ours.size() >= (device == "cpu" ? 3 : 6));  // crews, the drive's, and a device's and memory's
  for (const std::string& thread : ours) {
    CAPTURE(thread);
    await_sleep(thread);
    const std::uint64_t blocked = std::stoull(status_of(thread, "SigBlk"), nullptr, 16);
    for (int signal = 1; signal <= SIGRTMAX; ++signal) {
      CAPTURE(signal);
      if (!cannot_be_blocked(signal)) REQUIRE((blocked >> (signal - 1) & 1) == 1);
    }
  }
}
