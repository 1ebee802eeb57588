// Plans that a daemon sends to a job's client: what comes of them, and that no descriptor is left behind.
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "daemon/sockets/connection.h"
#include "liballoc/agent/client/client.h"
#include "liballoc/base/os.h"
#include "tests/daemon/support.h"

using namespace terrace;
using namespace terrace::tests;
using liballoc::Client;
using liballoc::Notice;

namespace {

daemon::UniqueFd sealed_memory(off_t bytes, unsigned seals) {
  daemon::UniqueFd fd(::memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(fd.get(), bytes) == 0);
  REQUIRE(::fcntl(fd.get(), F_ADD_SEALS, seals) == 0);
  return fd;
}

int open_descriptors_now() {
  int count = 0;
  for (int fd = 0; fd < 4096; ++fd) count += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

// Welcomes one job, and sends it what the test says.
class PlanningDaemon {
 public:
  explicit PlanningDaemon(std::uint64_t features = wire::known_features) {
    daemon::UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.c_str(), path_.size());
    REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::listen(listener.get(), 5) == 0);
    std::thread serving([&] {
      connection_ = std::make_unique<daemon::Connection>(
          daemon::UniqueFd(::accept(listener.get(), nullptr, nullptr)), daemon::Peer{}, 0);
      pollfd waiting{connection_->fd(), POLLIN, 0};
      ::poll(&waiting, 1, 5000);
      wire::Welcome welcome = wire::make<wire::Welcome>();
      welcome.features = features;
      welcome.flags = wire::welcome_segment_fd;
      welcome.segment_bytes = 16384;
      welcome.ring_offset = 4096;
      welcome.ring_capacity = 64;
      const auto segment = sealed_memory(16384, F_SEAL_SHRINK);
      const int fds[] = {segment.get()};
      connection_->send(&welcome, sizeof welcome, fds);
    });
    const int error = client.start({.socket_path = path_.c_str(), .job = "train", .program = "python3"});
    serving.join();
    REQUIRE(error == 0);
  }
  ~PlanningDaemon() { client.shutdown(); }

  Notice send(const wire::PlannedSchedule& plan, std::span<const int> fds = {}) {
    connection_->send(&plan, sizeof plan, fds);
    Notice notice = Notice::nothing;
    eventually([&] { return (notice = client.step(os::now_ns())) != Notice::nothing; });
    return notice;
  }
  Client client;

 private:
  TemporaryDirectory directory_;
  std::string path_ = directory_ / "plans.sock";
  std::unique_ptr<daemon::Connection> connection_;
};

wire::PlannedSchedule some_plan(std::uint64_t bytes) {
  auto plan = wire::make<wire::PlannedSchedule>();
  plan.phase = 3;
  plan.period_hash = 77;
  plan.image_bytes = bytes;
  plan.budget_bytes = 5 << 20;
  return plan;
}

}  // namespace

TEST_CASE("APlanComesWithItsDescriptorWhichTheNextStepCloses") {
  PlanningDaemon daemon;
  CHECK(daemon.client.has_feature(wire::feature_schedules));
  const auto image = sealed_memory(4096, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW);
  const int fds[] = {image.get()};
  const int before = open_descriptors_now();
  REQUIRE(daemon.send(some_plan(4000), fds) == Notice::schedule);
  const liballoc::SentPlan& plan = daemon.client.plan();
  CHECK(plan.phase == 3);
  CHECK(plan.period_hash == 77);
  CHECK(plan.image_bytes == 4000);
  CHECK(plan.budget_bytes == 5 << 20);
  REQUIRE(plan.fd >= 0);
  CHECK(::lseek(plan.fd, 0, SEEK_END) == 4096);
  CHECK((::fcntl(plan.fd, F_GETFD) & FD_CLOEXEC) != 0);
  CHECK(open_descriptors_now() == before + 1);
  CHECK(daemon.client.step(os::now_ns()) == Notice::nothing);
  CHECK(open_descriptors_now() == before);
  for (int i = 0; i < 20; ++i) REQUIRE(daemon.send(some_plan(4000), fds) == Notice::schedule);
  CHECK(open_descriptors_now() == before + 1);
}

TEST_CASE("APeriodThatCannotBePlannedHasAReason") {
  PlanningDaemon daemon;
  auto none = some_plan(0);
  wire::copy_text(none.text, sizeof none.text, "the period does not fit into the budget");
  REQUIRE(daemon.send(none) == Notice::schedule);
  CHECK(daemon.client.plan().fd == -1);
  CHECK(std::string(daemon.client.plan().text) == "the period does not fit into the budget");
  std::memset(none.text, 'x', sizeof none.text);  // not terminated
  REQUIRE(daemon.send(none) == Notice::schedule);
  CHECK(std::string(daemon.client.plan().text).size() == sizeof none.text - 1);
}

TEST_CASE("APlanWithoutADescriptorOrADescriptorWithoutAPlanEndsTheConnection") {
  PlanningDaemon daemon;
  const auto image = sealed_memory(4096, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW);
  const int fds[] = {image.get(), image.get()};
  const int before = open_descriptors_now();
  Notice notice = Notice::nothing;
  SECTION("no descriptor") { notice = daemon.send(some_plan(4000)); }
  SECTION("no plan") { notice = daemon.send(some_plan(0), std::span(fds, 1)); }
  SECTION("two descriptors") { notice = daemon.send(some_plan(4000), fds); }
  CHECK(notice == Notice::disconnected);
  CHECK_FALSE(daemon.client.has_feature(wire::feature_schedules));
  CHECK(open_descriptors_now() <= before);
}

TEST_CASE("AnOlderDaemonPlansNothing") {
  PlanningDaemon daemon(wire::known_features & ~wire::feature_schedules);
  CHECK_FALSE(daemon.client.has_feature(wire::feature_schedules));
}

TEST_CASE("AChildKeepsNoPlansDescriptor") {
  PlanningDaemon daemon;
  const auto image = sealed_memory(4096, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW);
  const int fds[] = {image.get()};
  REQUIRE(daemon.send(some_plan(4000), fds) == Notice::schedule);
  const int fd = daemon.client.plan().fd;
  const pid_t child = ::fork();
  if (child == 0) {
    daemon.client.after_fork_in_child();
    ::_exit(::fcntl(fd, F_GETFD) < 0 ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 0);
}
