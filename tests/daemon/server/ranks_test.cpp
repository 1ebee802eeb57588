// The ranks of one torchrun: two processes of one name are one job on every tier, and what the administrator
// says of that job they have together.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "tests/daemon/support.h"

using namespace terrace;
using namespace terrace::tests;
using nlohmann::json;

namespace {

constexpr std::uint64_t gpu_of_rank_bytes = 16 * gib;

wire::Hello rank_greeting(bool is_heap) {
  wire::Hello hello = greeting("train", 0, is_heap ? 0 : wire::any_bytes);
  if (!is_heap) return hello;
  hello.flags = wire::hello_is_gpu_heap;
  hello.pool_capacity_bytes = gpu_of_rank_bytes;
  wire::copy_text(hello.program, sizeof hello.program, "card 0000:3b:00.0");
  return hello;
}

// A process with a pager and a heap on the GPU that all ranks share, until it is killed.
class Rank {
 public:
  explicit Rank(const std::string& socket) : pid_(::fork()) {
    if (pid_ != 0) return;
    RawClient pager(socket), heap(socket);
    const bool is_joined = pager.send(rank_greeting(false)) && heap.send(rank_greeting(true));
    while (is_joined) ::pause();
    ::_exit(1);
  }
  ~Rank() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Rank(const Rank&) = delete;

 private:
  pid_t pid_;
};

}  // namespace

TEST_CASE("RanksOfOneTorchrunAreOneJobOnEveryTier") {
  const TemporaryDirectory state;
  const ServerThread server([&](daemon::ServerOptions& options) {
    using daemon::Amount;
    options.config.state = state.path();
    options.is_private = false;
    options.config.gpu_memory = Amount::percent(100);
    options.config.writes_per_day = 8 * gib;
    daemon::JobRule rule;
    rule.name = "train";
    rule.user = std::to_string(::getuid());
    rule.limit = rule.pool.limit = rule.writes.limit = rule.gpu.limit = Amount::percent(25);
    options.config.jobs = {rule};
  });
  const Rank first(server.socket()), second(server.socket());
  const auto job = [&] {
    const json jobs = ask(server.socket(), {{"verb", "jobs"}})["jobs"];
    REQUIRE(jobs.size() <= 1);
    return jobs.empty() ? json::object() : jobs[0];
  };
  REQUIRE(eventually([&] {
    const json now = job();
    return now.contains("gpu_heaps") && now["gpu_heaps"].size() == 2 && now["sessions"].size() == 2;
  }));
  REQUIRE(eventually([&] { return job()["gpu_granted_bytes"] == gpu_of_rank_bytes / 4; }));
  const json train = job();
  std::set<json> processes;
  std::uint64_t dram = 0, pool = 0;
  for (const json& session : train["sessions"]) {
    processes.insert(session["pid"]);
    dram += session["granted_bytes"].get<std::uint64_t>();
    pool += session["pool_limit_bytes"].get<std::uint64_t>();
  }
  CHECK(processes.size() == 2);
  CHECK(train["budget_bytes"] == gib / 4);
  CHECK(dram <= gib / 4);
  CHECK(train["pool_promised_bytes"] == gib / 4);
  CHECK(pool <= gib / 4);
  CHECK(train["gpu_budget_bytes"] == gpu_of_rank_bytes / 4);
  REQUIRE(eventually([&] { return job().contains("writes_left_bytes"); }));
  CHECK(job()["writes_left_bytes"].get<std::uint64_t>() <= 2 * gib);
  CHECK(job()["writes_limit_bytes"] == 2 * gib);
}
