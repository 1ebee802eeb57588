// A job's period is planned and the plan comes back, over real sockets; and what people see of it.
#include <sys/mman.h>

#include "liballoc/wire/schedule/image.h"
#include "liballoc/wire/segment.h"
#include "tests/daemon/server/period_support.h"

using namespace terrace;
using namespace terrace::tests;
using Catch::Matchers::Contains;
using Catch::Matchers::Equals;

namespace {

// The next message that is one; others (a budget that changed) are passed over.
Received next_schedule(RawClient& client) {
  for (;;) {
    auto received = client.receive();
    REQUIRE(received);
    if (received->type() == wire::Type::schedule) return std::move(*received);
  }
}

nlohmann::json session_of(const ServerThread& server) {
  const nlohmann::json status = ask(server.socket(), {{"verb", "status"}});
  return status["jobs"][0]["sessions"][0];
}

}  // namespace

TEST_CASE("APeriodIsAnsweredByASealedSchedule") {
  ServerThread server;
  RawClient job(server.socket());
  CHECK((join(job).as<wire::Welcome>().features & wire::feature_schedules) != 0);
  const std::string image = planned_image();
  REQUIRE(send_period(job, image));
  Received answer = next_schedule(job);
  const auto message = answer.as<wire::PlannedSchedule>();
  INFO(message.text);
  CHECK(message.phase == 1);
  CHECK(message.period_hash == 0xfeedbeefcafe);
  REQUIRE(message.image_bytes > 0);
  REQUIRE(answer.fds.size() == 1);
  const daemon::PeriodFile file =
      daemon::look_at_period_file(&answer.fds[0], message.image_bytes);  // needs the same seals
  REQUIRE_THAT(file.problem, Equals(""));
  const auto bytes = daemon::read_file(file);
  const auto opened = wire::open_schedule(bytes);
  REQUIRE(opened);
  CHECK(opened.view.header->period_hash == 0xfeedbeefcafe);
  CHECK(wire::text_of(opened.view.header->policy) == "g10");

  const nlohmann::json session = session_of(server);
  CHECK(session["policy"] == "g10");
  CHECK_FALSE(session.contains("plan_refusal"));
  CHECK(session["plan"]["entries"] == opened.view.entries.size());
  CHECK(session["plan"]["period_hash"] == "0000feedbeefcafe");
  CHECK(session["plan"]["predicted_step_seconds"].get<double>() == Approx(opened.view.header->step_us / 1e6));
  CHECK(session["plan"]["budget_bytes"] == message.budget_bytes);
  CHECK_FALSE(session["plan"].contains("measured_step_seconds"));
  const nlohmann::json events = ask(server.socket(), {{"verb", "events"}});
  CHECK_THAT(events.dump(), Contains("s a step predicted"));
}

TEST_CASE("StepsThatCameAfterThePlanAreMeasuredUnderIt") {
  ServerThread server;
  RawClient job(server.socket());
  const Received welcome = join(job);
  const auto message = welcome.as<wire::Welcome>();
  void* segment =
      ::mmap(nullptr, message.segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, welcome.fds.at(0).get(), 0);
  REQUIRE(segment != MAP_FAILED);
  auto& stats = *reinterpret_cast<wire::JobStats*>(static_cast<char*>(segment) + message.stats_offset);
  stats.set(wire::Stat::steps, 10);
  stats.set(wire::Stat::steps_ns, 90'000'000'000);
  REQUIRE(send_period(job, planned_image()));
  REQUIRE(next_schedule(job).as<wire::PlannedSchedule>().image_bytes > 0);
  CHECK_FALSE(session_of(server)["plan"].contains("measured_step_seconds"));
  stats.set(wire::Stat::steps, 14);
  stats.set(wire::Stat::steps_ns, 98'000'000'000);
  CHECK(session_of(server)["plan"]["measured_step_seconds"] == 2.0);
  ::munmap(segment, message.segment_bytes);
}

TEST_CASE("APeriodWithoutAPlanIsAnsweredByItsReason") {
  ServerThread server([](daemon::ServerOptions& options) { options.config.policy = "reactive"; });
  RawClient job(server.socket());
  join(job);
  REQUIRE(send_period(job, planned_image()));
  const Received answer = next_schedule(job);
  CHECK(answer.fds.empty());
  CHECK(answer.as<wire::PlannedSchedule>().image_bytes == 0);
  CHECK_THAT(answer.as<wire::PlannedSchedule>().text, Contains("reactive"));
  CHECK_THAT(session_of(server)["plan_refusal"].get<std::string>(), Contains("reactive"));
  CHECK_FALSE(session_of(server).contains("plan"));
  // The job's own choice goes before.
  REQUIRE(send_period(job, planned_image("sentinel_interval")));
  CHECK(next_schedule(job).as<wire::PlannedSchedule>().image_bytes > 0);
  CHECK(session_of(server)["policy"] == "sentinel_interval");
}

TEST_CASE("ASearchSendsAQuickPlanFirst") {
  ServerThread server;
  RawClient job(server.socket());
  join(job);
  REQUIRE(send_period(job, planned_image("joint")));
  CHECK(next_schedule(job).as<wire::PlannedSchedule>().image_bytes > 0);
}

TEST_CASE("WithoutAPeriodNothingIsSaidOfAPlan") {
  ServerThread server;
  RawClient job(server.socket());
  join(job);
  const nlohmann::json session = session_of(server);
  CHECK_FALSE(session.contains("policy"));
  CHECK_FALSE(session.contains("plan"));
  CHECK_FALSE(session.contains("plan_refusal"));
}

TEST_CASE("AJobThatLeavesWhileItIsPlannedLeavesNothingBehind") {
  ServerThread server;
  const std::size_t before = open_descriptors(::getpid());
  for (int i = 0; i < 20; ++i) {
    RawClient job(server.socket());
    join(job, greeting(("job" + std::to_string(i)).c_str()));
    REQUIRE(send_period(job, planned_image("joint")));
  }
  CHECK(eventually([&] { return open_descriptors(::getpid()) <= before; }));
}
