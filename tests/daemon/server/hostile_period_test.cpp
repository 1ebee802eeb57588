// Jobs that break the rules with what they send as a period. After every one of them the daemon serves an
// honest job's period, and holds no descriptor of theirs.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <random>

#include "tests/daemon/server/period_support.h"

using namespace terrace;
using namespace terrace::tests;
using Catch::Matchers::Contains;

namespace {

struct PeriodFixture {
  ServerThread server;
  std::size_t descriptors_before = open_descriptors(::getpid());

  ~PeriodFixture() {
    {
      RawClient honest(server.socket());
      join(honest, greeting("honest"));
      CHECK(answer_to(honest, planned_image()).image_bytes > 0);
    }
    // The server is in this process: whatever it leaked would show.
    CHECK(eventually([&] { return open_descriptors(::getpid()) <= descriptors_before; }));
  }
  static wire::PlannedSchedule answer_to(RawClient& job, const std::string& image) {
    REQUIRE(send_period(job, image));
    for (;;) {
      const auto received = job.receive();
      REQUIRE(received);
      if (received->type() == wire::Type::schedule) return received->as<wire::PlannedSchedule>();
    }
  }
  void expect_disconnect(const wire::Period& message, int fd) const {
    RawClient job(server.socket());
    join(job, greeting("hostile"));
    if (fd >= 0)
      job.send(message, {&fd, 1});
    else
      job.send(message);
    CHECK(job.is_closed());
  }
};

daemon::UniqueFd filled(const std::string& image, int seals) {
  daemon::UniqueFd fd(::memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::write(fd.get(), image.data(), image.size()) == static_cast<ssize_t>(image.size()));
  if (seals != 0) REQUIRE(::fcntl(fd.get(), F_ADD_SEALS, seals) == 0);
  return fd;
}

constexpr int whole_seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;

}  // namespace

TEST_CASE_METHOD(PeriodFixture, "AnUnsealedPeriodIsDisconnected") {
  const std::string image = planned_image();
  for (const int seals : {0, F_SEAL_SHRINK | F_SEAL_GROW, F_SEAL_WRITE | F_SEAL_GROW})
    expect_disconnect(period_message(image), filled(image, seals).get());
}

TEST_CASE_METHOD(PeriodFixture, "APeriodThatIsNoMemoryFileIsDisconnected") {
  const std::string image = planned_image();
  const daemon::UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  expect_disconnect(period_message(image), null.get());
  const daemon::UniqueFd directory(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  expect_disconnect(period_message(image), directory.get());
  expect_disconnect(period_message(image), -1);
}

// Whoever closes it last waits for a minute; that is neither the loop nor who waits for the answer.
TEST_CASE("APeriodThatIsSlowToCloseHoldsUpNobody") {
  TemporaryDirectory directory;
  const std::string socket = directory / "t.sock";
  const DaemonProcess process(socket, {"--private", "--pool", directory.path()});
  LingeringSocket slow;
  RawClient hostile(socket);
  join(hostile, greeting("hostile"));
  const std::string image = planned_image();
  process.while_stopped([&] {
    const int fd = slow.fd();
    hostile.send(period_message(image), {&fd, 1});
    slow.let_go();
  });
  CHECK(hostile.is_closed());
  RawClient asking(socket);
  asking.send_text(R"({"verb":"ping"})");
  const auto reply = asking.receive();
  REQUIRE(reply);
  CHECK(reply->type() == wire::Type::reply);
}

TEST_CASE_METHOD(PeriodFixture, "APeriodOfAWrongSizeIsDisconnected") {
  const std::string image = planned_image();
  const daemon::UniqueFd file = filled(image, whole_seals);
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{127}, std::uint64_t{image.size() + 1},
                                    std::uint64_t{wire::most_period_bytes + 1}, ~std::uint64_t{0}}) {
    wire::Period message = period_message(image);
    message.image_bytes = bytes;
    expect_disconnect(message, file.get());
  }
}

TEST_CASE_METHOD(PeriodFixture, "APeriodBeforeAGreetingIsDisconnected") {
  const std::string image = planned_image();
  const daemon::UniqueFd file = filled(image, whole_seals);
  RawClient stranger(server.socket());
  const int fd = file.get();
  stranger.send(period_message(image), {&fd, 1});
  CHECK(stranger.is_closed());
}

TEST_CASE_METHOD(PeriodFixture, "APeriodOfAJobThatTakesNoSchedulesIsDisconnected") {
  wire::Hello hello = greeting("older");
  hello.features &= ~wire::feature_schedules;
  RawClient job(server.socket());
  join(job, hello);
  send_period(job, planned_image());
  CHECK(job.is_closed());
}

TEST_CASE_METHOD(PeriodFixture, "TwoDescriptorsWithAPeriodAreDisconnected") {
  const std::string image = planned_image();
  const daemon::UniqueFd file = filled(image, whole_seals);
  const int fds[] = {file.get(), file.get()};
  RawClient job(server.socket());
  join(job, greeting("hostile"));
  job.send(period_message(image), fds);
  CHECK(job.is_closed());
}

TEST_CASE_METHOD(PeriodFixture, "AFloodOfPeriodsIsDisconnected") {
  RawClient job(server.socket());
  join(job, greeting("flood"));
  const std::string image = planned_image();
  bool closed = false;
  for (int i = 0; i < 200 && !closed; ++i) closed = !send_period(job, image);
  CHECK((closed || job.is_closed()));
}

TEST_CASE_METHOD(PeriodFixture, "FlippedBitsInAPeriodNeverHurt") {
  std::mt19937 random(5);
  const std::string right = planned_image();
  for (int i = 0; i < 60; ++i) {
    RawClient job(server.socket());
    join(job, greeting("flipped"));
    std::string image = right;
    image[random() % image.size()] ^= static_cast<char>(1 << random() % 8);
    CHECK_THAT(answer_to(job, image).text, Contains("cannot be used"));
  }
}

TEST_CASE_METHOD(PeriodFixture, "APeriodOfMostSizeIsAnsweredAndDelaysNobody") {
  PeriodMaker p;
  for (std::uint32_t k = 0; k < 64; ++k) p.allocate(mib, 1000);
  for (std::uint32_t o = 0; o < 16'000; ++o) {
    const auto kept = p.keep(2 * mib);
    for (std::uint32_t k = 0; k < 64; ++k) p.use_in(kept, k, true);
  }
  const std::string large = image_of(p.draft(gib));
  CHECK(large.size() > 8 * mib);
  RawClient job(server.socket());
  join(job, greeting("large"));
  CHECK(answer_to(job, large).image_bytes == 0);
  // Behind the image lies as much as a memfd of a period may have.
  std::string padded = planned_image();
  const std::size_t bytes = padded.size();
  padded.resize(wire::most_period_bytes);
  const daemon::UniqueFd file = filled(padded, whole_seals);
  const int fd = file.get();
  padded.resize(bytes);
  REQUIRE(job.send(period_message(padded), {&fd, 1}));
  const auto answer = job.receive();
  REQUIRE(answer);
  CHECK(answer->as<wire::PlannedSchedule>().image_bytes > 0);
}
