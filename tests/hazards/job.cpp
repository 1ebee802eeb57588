// The test case's side: starts a copy of this program under the preload library and collects what became of
// it.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "tests/hazards/hazard.h"
#include "tests/hazards/machine/encrypted_pool.h"

extern char** environ;

namespace terrace::hazards {
namespace {

bool is_ours(const std::string& entry) {
  return entry.starts_with("TERRACE_") || entry.starts_with("LD_PRELOAD=");
}

void set_variable(std::vector<std::string>* variables, const std::string& name, const std::string& value) {
  std::erase_if(*variables, [&](const std::string& entry) { return entry.starts_with(name + "="); });
  if (!value.empty()) variables->push_back(name + "=" + value);
}

// Whoever says where the pool is, or which daemon has it, has that.
void set_pool(std::vector<std::string>* variables, const Environment& settings) {
  const bool is_said = std::any_of(settings.begin(), settings.end(), [](const auto& setting) {
    return setting.first == "TERRACE_POOL_DIR" || setting.first == "TERRACE_SOCKET";
  });
  const std::string* const encrypted = encrypted_pool_directory();
  set_variable(variables, "HAZARD_POOL_DIR", encrypted == nullptr ? HAZARD_SCRATCH : *encrypted);
  if (encrypted == nullptr)
    set_variable(variables, "TERRACE_POOL_DIR", HAZARD_SCRATCH);
  else if (!is_said)
    set_variable(variables, "TERRACE_SOCKET", encrypted_pool_socket());
}

// With HAZARD_NVM=1 in the environment of a test program its jobs have NVM before the pool, in a directory
// that is DRAM here: less of it than most scenarios move, so that both are used.
void set_tiers(std::vector<std::string>* variables) {
  if (std::getenv("HAZARD_NVM") != nullptr) set_variable(variables, "TERRACE_TIERS", "nvm=24M@/dev/shm");
}

std::vector<std::string> scenario_environment(const Environment& settings) {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!is_ours(*entry)) variables.emplace_back(*entry);
  }
  set_variable(&variables, "LD_PRELOAD", HAZARD_PRELOAD);
  set_variable(&variables, "TERRACE_DRAM", "256M");
  set_pool(&variables, settings);
  set_variable(&variables, "TERRACE_POOL_SIZE", "1G");
  set_variable(&variables, "TERRACE_COMPRESS", "auto");
  set_tiers(&variables);
  for (const auto& [name, value] : settings) set_variable(&variables, name, value);
  return variables;
}

std::vector<char*> as_pointers(std::vector<std::string>* strings) {
  std::vector<char*> pointers;
  for (std::string& s : *strings) pointers.push_back(s.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Job::Job(const std::string& scenario, const Environment& settings, Preparation preparation) {
  output_ = memfd_create("hazard-output", MFD_CLOEXEC);
  REQUIRE(output_ >= 0);
  std::vector<std::string> variables = scenario_environment(settings);
  std::vector<std::string> words = {HAZARD_PROGRAM, "--scenario", scenario};
  const std::vector<char*> environment = as_pointers(&variables);
  const std::vector<char*> arguments = as_pointers(&words);
  pid_ = fork();
  REQUIRE(pid_ >= 0);
  if (pid_ > 0) return;
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(output_, STDOUT_FILENO);
  dup2(output_, STDERR_FILENO);
  close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);  // what this program was started with is not the scenario's
  if (preparation != nullptr) preparation();
  execve(HAZARD_PROGRAM, arguments.data(), environment.data());
  std::perror("execve " HAZARD_PROGRAM);
  _exit(127);
}

Job::~Job() {
  kill(-pid_, SIGKILL);  // whatever the scenario forked goes with it
  wait();
  close(output_);
}

void Job::send_signal(int signal) const { kill(pid_, signal); }

bool Job::is_running() {
  if (!ended_) ended_ = waitpid(pid_, &status_, WNOHANG) == pid_;
  return !ended_;
}

bool Job::wait_for_output(const std::string& text) {
  while (output().find(text) == std::string::npos) {
    if (!is_running()) return false;
    poll(nullptr, 0, 5);
  }
  return true;
}

std::string Job::output() const {
  struct stat information {};
  fstat(output_, &information);
  std::string text(static_cast<std::size_t>(information.st_size), '\0');
  const ssize_t got = pread(output_, text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

Outcome Job::wait() {
  while (!ended_) ended_ = waitpid(pid_, &status_, 0) == pid_;
  // ld.so only warns of a library that is not there, and the scenario would hold for the wrong reason.
  CHECK(output().find("cannot be preloaded") == std::string::npos);
  return {status_, exited_with(status_, exit_skip), output()};
}

std::string Outcome::skip_reason() const {
  const std::size_t at = output.find("SKIP: ");
  return at == std::string::npos ? output : output.substr(at + 6, output.find('\n', at) - at - 6);
}

Outcome run_scenario(const std::string& name, const Environment& settings, Preparation preparation) {
  return Job(name, settings, preparation).wait();
}

const std::vector<std::string>& movers() {
  static const std::vector<std::string> names = {"move", "mremap"};
  return names;
}

namespace {

// Runs the scenario and requires that it held or could not be tested; true in the second case.
bool was_skipped(const std::string& name, const std::string& mover, const Environment& settings,
                 std::string* reason) {
  Environment with_mover = settings;
  with_mover.emplace_back("TERRACE_MOVER", mover);
  const Outcome outcome = run_scenario(name, with_mover);
  INFO("mover " << mover << ", wait status " << outcome.status << "\n" << outcome.output);
  CHECK((outcome.held() || outcome.skipped));
  if (outcome.skipped) *reason = outcome.skip_reason();
  std::cout << (outcome.skipped ? "not run with mover " + mover + ": " + *reason + "\n" : outcome.output);
  return outcome.skipped;
}

}  // namespace

void run_for_mover(const std::string& name, const std::string& mover, const Environment& settings) {
  std::string reason;
  if (was_skipped(name, mover, settings, &reason)) report_skip(reason);
}

void run_for_movers(const std::string& name, const Environment& settings) {
  std::string reason;
  std::size_t skipped = 0;
  for (const std::string& mover : movers()) skipped += was_skipped(name, mover, settings, &reason) ? 1 : 0;
  if (skipped == movers().size()) report_skip(reason);
}

ScratchDirectory::ScratchDirectory() : path_(std::string(HAZARD_SCRATCH) + "/hazard-XXXXXX") {
  REQUIRE(mkdtemp(path_.data()) != nullptr);
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void report_skip(const std::string& reason) { std::cout << "SKIP: " << reason << std::endl; }

}  // namespace terrace::hazards
