#include "daemon/planning/planning_thread.h"

#include <poll.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "liballoc/wire/schedule/image.h"
#include "tests/daemon/planning/made_periods.h"
#include "tests/units.h"

namespace terrace::daemon {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::Equals;

PlanRequest request_of(SessionId session, const std::string& image, uid_t uid = 1) {
  auto file = make_sealed_file(image);
  REQUIRE(file);
  PlanRequest request;
  request.session = session;
  request.uid = uid;
  request.phase = 1;
  request.period_hash = 0xfeedbeefcafe;
  request.file = look_at_period_file(&*file, image.size());
  return request;
}

std::string training_image(const char* policy = "g10", std::uint32_t layers = 16,
                           std::uint64_t bytes_per_second = 4'000'000'000) {
  const tests::TrainingShape shape{.layers = layers};
  return tests::image_of(tests::training_step(shape).draft(
      layers * (shape.activation_bytes + shape.weight_bytes) / 2, policy, bytes_per_second));
}

// It is searched until the time is over: the drive is too slow for a plan that cannot be better.
std::string searched_image() { return training_image("joint", 64, 200'000'000); }

// So many, or as many as came within ten seconds.
std::vector<PlanResult> results_of(PlanningThread& thread, std::size_t count) {
  std::vector<PlanResult> all;
  while (all.size() < count) {
    pollfd waiting{thread.event_fd(), POLLIN, 0};
    if (::poll(&waiting, 1, 10'000) <= 0) break;
    for (PlanResult& result : thread.results()) all.push_back(std::move(result));
  }
  return all;
}

// All until the first that answers this job. What is reported after that may come along, and is left out.
std::vector<PlanResult> results_until(PlanningThread& thread, SessionId session) {
  std::vector<PlanResult> all;
  for (;;) {
    auto more = results_of(thread, 1);
    REQUIRE_FALSE(more.empty());
    for (PlanResult& result : more) {
      all.push_back(std::move(result));
      if (all.back().session == session) return all;
    }
  }
}

}  // namespace

TEST_CASE("A plan comes back as a sealed image that the job's side opens") {
  PlanningThread thread;
  REQUIRE_THAT(thread.ask(request_of(7, training_image())), Equals(""));
  const auto results = results_of(thread, 1);
  REQUIRE(results.size() == 1);
  const PlanResult& result = results[0];
  INFO(result.refusal);
  REQUIRE(result.file);
  CHECK(result.session == 7);
  CHECK(result.phase == 1);
  CHECK(result.policy == "g10");
  CHECK(result.plan.step_us > 0);
  UniqueFd copy(::dup(result.file.get()));
  const PeriodFile file = look_at_period_file(&copy, result.image_bytes);  // the same seals
  REQUIRE_THAT(file.problem, Equals(""));
  const std::vector<std::byte> bytes = read_file(file);
  const auto opened = wire::open_schedule(bytes);
  REQUIRE(opened);
  CHECK(opened.view.entries.size() == result.plan.entries);
}

TEST_CASE("What is no period or another than the message says gets a reason") {
  PlanningThread thread;
  std::string damaged = training_image();
  damaged[damaged.size() / 2] ^= 1;
  REQUIRE_THAT(thread.ask(request_of(1, damaged)), Equals(""));
  PlanRequest other = request_of(2, training_image());
  other.phase = 2;
  REQUIRE_THAT(thread.ask(std::move(other)), Equals(""));
  const auto results = results_of(thread, 2);
  REQUIRE(results.size() == 2);
  for (const PlanResult& result : results) {
    CAPTURE(result.session, result.refusal);
    CHECK_FALSE(result.file);
    if (result.session == 1) CHECK_THAT(result.refusal, Contains("checksum"));
    if (result.session == 2) CHECK_THAT(result.refusal, Contains("another phase or hash"));
  }
}

TEST_CASE("The newest request of a session replaces the one that waits") {
  PlanningThread thread;
  const std::string unknown = training_image("lru"), right = training_image();
  REQUIRE_THAT(thread.ask(request_of(1, searched_image())), Equals(""));
  for (int i = 0; i < 50; ++i) REQUIRE_THAT(thread.ask(request_of(2, unknown)), Equals(""));
  REQUIRE_THAT(thread.ask(request_of(2, right)), Equals(""));
  const auto results = results_until(thread, 2);
  REQUIRE_FALSE(results.empty());
  CHECK_THAT(results.back().refusal, Equals(""));
  CHECK(std::count_if(results.begin(), results.end(), [](const auto& r) { return r.session == 2; }) == 1);
}

TEST_CASE("A search ends when its session is gone and its result goes to nobody") {
  PlanningThread thread;
  REQUIRE_THAT(thread.ask(request_of(1, searched_image())), Equals(""));
  thread.forget(1);
  REQUIRE_THAT(thread.ask(request_of(2, training_image())), Equals(""));
  // The quick plan may have been there before it was forgotten; the search's is not.
  CHECK(results_until(thread, 2).size() <= 2);
}

TEST_CASE("A user who asks much waits for himself alone") {
  PlanningThread thread;
  const std::string image = training_image();
  SessionId session = 100;
  std::string refusal;
  REQUIRE_THAT(thread.ask(request_of(1, searched_image())), Equals(""));
  for (std::size_t i = 0; i <= PlanningThread::most_waiting_of_user + 1 && refusal.empty(); ++i)
    refusal = thread.ask(request_of(session++, image, 5));
  CHECK_THAT(refusal, Contains("send it again later"));
  REQUIRE_THAT(thread.ask(request_of(2, image, 6)), Equals(""));
  const auto results = results_until(thread, 2);
  CHECK(std::count_if(results.begin(), results.end(), [](const auto& r) { return r.session >= 100; }) <= 2);
}

}  // namespace terrace::daemon
