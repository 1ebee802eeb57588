// An answer that tells of many jobs says the same in turns as at once.
#include "daemon/control/long_answer.h"

#include <catch2/catch.hpp>

#include "tests/units.h"

using namespace terrace;
using namespace terrace::daemon;
using nlohmann::json;

namespace {

using terrace::tests::gib;
using terrace::tests::mib;

struct LongAnswerFixture {
  Registry registry{64 * gib, Pools("/var/tmp", gib, false)};
  Config config;
  ControlContext context{registry, config};
  std::vector<SessionId> ids;

  LongAnswerFixture() {
    for (int i = 0; i < 200; ++i) {
      wire::Hello hello = wire::make<wire::Hello>();
      wire::copy_text(hello.job, sizeof hello.job, ("job" + std::to_string(i / 2)).c_str());
      hello.requested_budget_bytes = 64 * mib;
      ids.push_back(registry.admit(hello, {100, 1000, 1000}, std::nullopt, 1).session->id());
    }
    context.leaves_jobs_out = true;
  }
  json head() const { return {{"ok", true}}; }
};

}  // namespace

TEST_CASE_METHOD(LongAnswerFixture, "an answer in turns is the answer at once") {
  LongAnswer answer(head(), registry);
  int turns = 0;
  for (; !answer.is_whole(); ++turns) answer.write(context);
  CHECK(turns == 4);  // of 64 processes each
  const json whole = json::parse(answer.text());
  CHECK(whole["ok"] == true);
  CHECK(whole["jobs"] == view_jobs(context));
}

TEST_CASE_METHOD(LongAnswerFixture, "JobsThatEndBetweenTwoTurnsAreLeftOut") {
  LongAnswer answer(head(), registry);
  answer.write(context);
  for (std::size_t i = 100; i < ids.size(); ++i) registry.end(ids[i], "closed", 2);
  while (!answer.is_whole()) answer.write(context);
  CHECK(json::parse(answer.text())["jobs"].size() < 100);
}

TEST_CASE_METHOD(LongAnswerFixture, "without a job there is an empty list") {
  for (const SessionId id : ids) registry.end(id, "closed", 2);
  LongAnswer answer(head(), registry);
  answer.write(context);
  REQUIRE(answer.is_whole());
  CHECK(json::parse(answer.text())["jobs"] == json::array());
}
