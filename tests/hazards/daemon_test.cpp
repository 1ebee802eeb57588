// The daemon holds no data, only knowledge: it may be killed at any moment and the job goes on, forks
// included. Where the job knows how to start one (TERRACE_DAEMON), it gets a new daemon and attaches to it.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/hazards/hazard.h"

namespace terrace::hazards {
namespace {

constexpr std::size_t block_bytes = 32 * mib;

bool accepts_connections(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const bool connected = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return connected;
}

// A terraced of the test's own, on a socket in `directory`.
class Daemon {
 public:
  explicit Daemon(const std::string& directory) : socket_(directory + "/d.sock") {
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      execl(HAZARD_DAEMON, HAZARD_DAEMON, "--socket", socket_.c_str(), "--dram", "512M", "--pool",
            directory.c_str(), "--pool-size", "1G", nullptr);
      _exit(127);
    }
    for (int i = 0; i < 500 && !accepts_connections(socket_); ++i) usleep(10'000);
  }
  ~Daemon() { end(SIGKILL); }
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  void end(int signal) {
    if (pid_ <= 0) return;
    kill(pid_, signal);
    if (signal == SIGSTOP) return;
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  const std::string& socket() const { return socket_; }

 private:
  std::string socket_;
  pid_t pid_ = -1;
};

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

}  // namespace terrace::hazards
