// The daemon holds no data, only knowledge: it may be killed at any moment and the job goes on, forks
// included. Where the job knows how to start one (TERRACE_DAEMON), it gets a new daemon and attaches to it.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/hazards/hazard.h"
#include "tests/hazards/machine/daemon.h"

namespace terrace::hazards {
namespace {

constexpr std::size_t block_bytes = 32 * mib;

void* filled(std::size_t bytes, std::uint64_t seed) {
  void* block = allocate(bytes);
  fill_pattern(block, bytes, seed);
  return block;
}

void await_line(const char* line) {
  char text[32] = {};
  HAZARD_CHECK(std::fgets(text, sizeof text, stdin) != nullptr && std::strcmp(text, line) == 0);
}

// The scenario's standard input, with which the test case says that the daemon is gone.
int go_pipe[2];

void read_from_go_pipe() { dup2(go_pipe[0], STDIN_FILENO); }

struct GoPipe {
  GoPipe() { REQUIRE(pipe2(go_pipe, O_CLOEXEC) == 0); }
  ~GoPipe() {
    close(go_pipe[0]);
    close(go_pipe[1]);
  }
  GoPipe(const GoPipe&) = delete;
  GoPipe& operator=(const GoPipe&) = delete;
};

// Starts the scenario under a daemon of its own, sends that `signal` while pages are evicted, lets the
// scenario go on.
void run_and_end_daemon(const std::string& scenario, int signal) {
  for (const std::string& mover : movers()) {
    const ScratchDirectory directory;
    const GoPipe pipe;
    Daemon daemon(directory.path());
    Job job(scenario,
            {{"TERRACE_MOVER", mover}, {"TERRACE_SOCKET", daemon.socket()}, {"TERRACE_POOL_DIR", ""}},
            &read_from_go_pipe);
    if (job.wait_for_output("evicted")) {
      daemon.end(signal);
      REQUIRE(write(go_pipe[1], "go\n", 3) == 3);
    }
    const Outcome outcome = job.wait();
    INFO("mover " << mover << ", wait status " << outcome.status << "\n" << outcome.output);
    if (outcome.skipped) return report_skip(outcome.skip_reason());
    CHECK(outcome.held());
  }
}

void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

constexpr int churned_blocks = 6;

void churn(void* const* blocks, std::uint64_t* round) {
  for (std::size_t i = 0; i < churned_blocks; ++i) {
    HAZARD_CHECK(count_wrong_pages(blocks[i], block_bytes, i + 100 * *round) == 0);
    fill_pattern(blocks[i], block_bytes, i + 100 * (*round + 1));
  }
  ++*round;
}

// The mover that copies keeps some frames out of the budget.
bool has_budget(std::size_t bytes) {
  const std::uint64_t budget = statistics().budget_bytes;
  return budget <= bytes && budget + 32 * mib > bytes;
}

}  // namespace

HAZARD_SCENARIO(fork_after_the_daemon) {
  require_pager();
  void* first = filled(block_bytes, 1);
  void* second = filled(block_bytes, 2);
  evict(first, block_bytes);
  evict(second, block_bytes);
  std::puts("evicted");
  std::fflush(stdout);
  await_line("go\n");
  for (int round = 0; round < 3; ++round) {
    const int status = in_forked_child([&] {
      if (count_wrong_pages(first, block_bytes, 1) != 0) return exit_wrong;
      fill_pattern(first, block_bytes, 50);
      return count_wrong_pages(second, block_bytes, 2) == 0 ? 0 : exit_wrong;
    });
    HAZARD_CHECK(exited_with(status, 0));
    HAZARD_CHECK(count_wrong_pages(first, block_bytes, 1) == 0);
    HAZARD_CHECK(count_wrong_pages(second, block_bytes, 2) == 0);
    evict(first, block_bytes);
    evict(second, block_bytes);
  }
}

TEST_CASE("hazard_fork_with_daemon_dead") { run_and_end_daemon("fork_after_the_daemon", SIGKILL); }

namespace {

// Page tables that a fork has to copy: address space, with the kernel's page of zeroes under it.
void make_forks_slow() {
  constexpr std::size_t bytes = std::size_t{4} << 30;
  void* area =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  HAZARD_CHECK(area != MAP_FAILED && madvise(area, bytes, MADV_NOHUGEPAGE) == 0);
  auto* at = static_cast<volatile unsigned char*>(area);
  at[0] = 1;  // nothing is copied of a mapping that was never written to
  for (std::size_t offset = 0; offset < bytes; offset += page_bytes) static_cast<void>(at[offset]);
}

// A child has none if its parent's was set up before the fork.
bool has_pager() {
  void* volatile first = allocate(run_bytes);
  std::free(first);
  terrace_status status{};
  status.size = sizeof status;
  return terrace_get_status(&status) == 0 && std::strcmp(status.pager, "active") == 0;
}

int evict_and_verify(std::uint64_t seed) {
  void* block = filled(block_bytes, seed);
  for (int round = 0; round < 3; ++round) {
    evict(block, block_bytes);
    if (count_wrong_pages(block, block_bytes, seed) != 0) return exit_wrong;
  }
  return 0;
}

}  // namespace

// The daemon answers a thread's first large allocation while another thread forks. What it granted is the
// parent's: each child gets a session and a pool of its own.
HAZARD_SCENARIO(forks_while_connecting) {
  const pid_t daemon = std::stoi(parameter("HAZARD_DAEMON_PID"));
  constexpr int most = 4;
  pid_t children[most];
  int count = 0;
  make_forks_slow();
  HAZARD_CHECK(kill(daemon, SIGSTOP) == 0);
  std::atomic<bool> has_answer{false};
  std::thread connecting([&] {
    std::free(allocate(run_bytes));
    has_answer = true;
  });
  usleep(50'000);  // it waits for the answer by now, or the forks come too early to show anything
  HAZARD_CHECK(kill(daemon, SIGCONT) == 0);
  for (; count < most && !has_answer; ++count) {
    children[count] = fork_checked();
    if (children[count] == 0) _Exit(has_pager() ? evict_and_verify(100 + count) : 0);
  }
  connecting.join();
  require_pager();
  const int result = evict_and_verify(200);
  for (int i = 0; i < count; ++i) HAZARD_CHECK(exited_with(wait_for(children[i]), 0));
  HAZARD_CHECK(result == 0);
  std::printf("%d forks\n", count);
}

TEST_CASE("hazard_fork_while_connecting") {
  for (const std::string& mover : movers()) {
    const ScratchDirectory directory;
    const Daemon daemon(directory.path());
    const Outcome outcome =
        run_scenario("forks_while_connecting", {{"TERRACE_MOVER", mover},
                                                {"TERRACE_SOCKET", daemon.socket()},
                                                {"TERRACE_POOL_DIR", ""},
                                                {"TERRACE_COMPRESS", "off"},
                                                {"HAZARD_DAEMON_PID", std::to_string(daemon.pid())}});
    INFO("mover " << mover << ", wait status " << outcome.status << "\n" << outcome.output);
    if (outcome.skipped) return report_skip(outcome.skip_reason());
    CHECK(outcome.held());
    CHECK_FALSE(outcome.says("terrace: "));
  }
}

HAZARD_SCENARIO(goes_on_after_the_daemon) {
  require_pager();
  void* first = filled(block_bytes, 1);
  void* second = filled(block_bytes, 2);
  evict(first, block_bytes);
  HAZARD_CHECK(terrace_advise(second, block_bytes, TERRACE_ADVISE_PAGE_OUT) == 0);
  std::puts("evicted");
  std::fflush(stdout);
  await_line("go\n");
  for (int round = 0; round < 5; ++round) {
    HAZARD_CHECK(count_wrong_pages(first, block_bytes, round + 1) == 0);
    fill_pattern(first, block_bytes, round + 2);
    evict(first, block_bytes);
    void* fresh = filled(block_bytes, 70);
    evict(fresh, block_bytes);
    HAZARD_CHECK(count_wrong_pages(fresh, block_bytes, 70) == 0);
    std::free(fresh);
  }
  HAZARD_CHECK(count_wrong_pages(second, block_bytes, 2) == 0);
}

TEST_CASE("hazard_daemon_killed") { run_and_end_daemon("goes_on_after_the_daemon", SIGKILL); }
TEST_CASE("hazard_daemon_stopped_in_order") { run_and_end_daemon("goes_on_after_the_daemon", SIGTERM); }

// A daemon that is stopped answers nothing, and its socket stays open: the job must not wait for it.
HAZARD_SCENARIO(goes_on_beside_a_stopped_daemon) {
  require_pager();
  void* block = filled(block_bytes, 1);
  std::puts("evicted");
  std::fflush(stdout);
  await_line("go\n");
  for (int round = 0; round < 5; ++round) {
    evict(block, block_bytes);
    HAZARD_CHECK(count_wrong_pages(block, block_bytes, 1) == 0);
    HAZARD_CHECK(exited_with(
        in_forked_child([&] { return count_wrong_pages(block, block_bytes, 1) == 0 ? 0 : exit_wrong; }), 0));
  }
}

TEST_CASE("hazard_daemon_stopped_by_a_signal") {
  run_and_end_daemon("goes_on_beside_a_stopped_daemon", SIGSTOP);
}

constexpr std::size_t budgets[] = {96 * mib, 160 * mib, 64 * mib};

// 192 MiB of data under budgets that come and go while it is read and written.
HAZARD_SCENARIO(churn_under_the_daemons_budgets) {
  require_pager();
  void* blocks[churned_blocks];
  std::uint64_t round = 0;
  for (std::size_t i = 0; i < churned_blocks; ++i) blocks[i] = filled(block_bytes, i);
  for (const std::size_t budget : budgets) {
    say("give me " + std::to_string(budget));
    while (!has_budget(budget)) churn(blocks, &round);
    churn(blocks, &round);
    quiesce();
    while (statistics().resident_bytes > budget) usleep(10'000);
    churn(blocks, &round);
    HAZARD_CHECK(statistics().resident_bytes <= budget);
  }
  HAZARD_CHECK(statistics().evictions > 0 && statistics().lost_runs == 0);
}

TEST_CASE("hazard_budget_changed_by_the_daemon") {
  for (const std::string& mover : movers()) {
    const ScratchDirectory directory;
    const Daemon daemon(directory.path());
    Job job("churn_under_the_daemons_budgets", {{"TERRACE_MOVER", mover},
                                                {"TERRACE_SOCKET", daemon.socket()},
                                                {"TERRACE_JOB", "churn"},
                                                {"TERRACE_DRAM", "128M"},
                                                {"TERRACE_POOL_DIR", ""}});
    for (const std::size_t budget : budgets) {
      if (!job.wait_for_output("give me " + std::to_string(budget))) break;
      const std::string answer = daemon.set_budget("churn", budget);
      INFO(answer);
      CHECK(answer.find("\"ok\":true") != std::string::npos);
    }
    const Outcome outcome = job.wait();
    INFO("mover " << mover << ", wait status " << outcome.status << "\n" << outcome.output);
    if (outcome.skipped) return report_skip(outcome.skip_reason());
    CHECK(outcome.held());
    CHECK_FALSE(outcome.says("over the budget"));
  }
}

// The daemon's pool directory is lost while it serves. The job says where its data goes instead; what the
// daemon says of pools later is not about that file.
HAZARD_SCENARIO(evicts_after_a_budget_change) {
  require_pager();
  void* block = filled(block_bytes, 1);
  evict(block, block_bytes);
  HAZARD_CHECK(count_wrong_pages(block, block_bytes, 1) == 0);
  say("give me less");
  while (!has_budget(96 * mib)) usleep(10'000);
  for (int round = 0; round < 3; ++round) {
    evict(block, block_bytes);
    HAZARD_CHECK(count_wrong_pages(block, block_bytes, 1) == 0);
  }
}

TEST_CASE("hazard_daemon_without_a_pool") {
  for (const std::string& mover : movers()) {
    const ScratchDirectory directory;
    const std::string pool = directory.path() + "/pool";
    REQUIRE(mkdir(pool.c_str(), 0700) == 0);
    const Daemon daemon(directory.path(), {pool});
    REQUIRE(rmdir(pool.c_str()) == 0);
    Job job("evicts_after_a_budget_change", {{"TERRACE_MOVER", mover},
                                             {"TERRACE_SOCKET", daemon.socket()},
                                             {"TERRACE_JOB", "poor"},
                                             {"TERRACE_POOL_DIR", ""},
                                             {"TERRACE_POOL_SIZE", ""}});
    if (job.wait_for_output("give me less")) daemon.set_budget("poor", 96 * mib);
    const Outcome outcome = job.wait();
    INFO("mover " << mover << ", wait status " << outcome.status << "\n" << outcome.output);
    if (outcome.skipped) return report_skip(outcome.skip_reason());
    CHECK(outcome.held());
    CHECK(outcome.says("grants no pool"));
    CHECK(outcome.says("a file of this process in /var/tmp"));
    CHECK_FALSE(outcome.says("full"));
  }
}

}  // namespace terrace::hazards
