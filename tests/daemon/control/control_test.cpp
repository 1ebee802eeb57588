// Requests of the terrace command and their answers.
#include "daemon/control/control.h"

#include <sys/mman.h>
#include <unistd.h>
#include <catch2/catch.hpp>
#include <cerrno>

#include "daemon/control/control_limit.h"
#include "tests/units.h"

using namespace terrace;
using namespace terrace::daemon;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

using terrace::tests::gib;
const Peer owner{100, 4000, 4000}, stranger{200, 5000, 5000}, root{1, 0, 0};

struct ControlFixture {
  Config config;
  Registry registry{8 * gib, Pools("/var/tmp", 4 * gib, false)};
  bool is_private = false;
  SessionId session = join("train");

  SessionId join(const char* job) {
    wire::Hello hello = wire::make<wire::Hello>();
    wire::copy_text(hello.job, sizeof hello.job, job);
    wire::copy_text(hello.program, sizeof hello.program, "python3");
    hello.requested_budget_bytes = 2 * gib;
    const SessionId id = registry.admit(hello, owner, std::nullopt, 1).session->id();
    registry.announcements();
    return id;
  }
  ControlOutcome ask_text(const std::string& text, const Peer& peer = owner) {
    return answer(text, peer, {registry, config, is_private, 2'000'000'000, 1'000'000'000});
  }
  json ask(const json& request, const Peer& peer = owner) { return ask_text(request.dump(), peer).reply; }
};

}  // namespace

TEST_CASE_METHOD(ControlFixture, "every answer says its format and whether it worked") {
  const json reply = ask({{"verb", "ping"}});
  CHECK(reply["ok"] == true);
  CHECK(reply["format"] == "terrace-control");
  CHECK(reply["version"] == 1);
  CHECK(reply["pid"] == ::getpid());
}

TEST_CASE_METHOD(ControlFixture, "status shows jobs, processes and tiers") {
  const json reply = ask({{"verb", "status"}});
  REQUIRE(reply["jobs"].size() == 1);
  const json& job = reply["jobs"][0];
  CHECK(job["job"] == "train");
  CHECK(job["uid"] == 4000);
  CHECK(job["budget_bytes"] == 2 * gib);
  CHECK(job["sessions"][0]["program"] == "python3");
  CHECK(job["sessions"][0]["granted_bytes"] == 2 * gib);
  CHECK(job["sessions"][0]["statistics"]["faults"] == 0);
  CHECK_FALSE(job["sessions"][0].contains("pager"));  // not known is not there
  CHECK(reply["tiers"][0]["tier"] == "dram");
  CHECK(reply["tiers"][0]["promised_bytes"] == 2 * gib);
  CHECK(reply["tiers"][1]["directory"] == "/var/tmp");
  CHECK(reply["uptime_seconds"] == 1.0);
}

TEST_CASE_METHOD(ControlFixture, "events are followed by number") {
  const json first = ask({{"verb", "events"}});
  REQUIRE(first["events"].size() == 1);
  CHECK(first["events"][0]["kind"] == "joined");
  CHECK(first["events"][0]["job"] == "train");
  registry.note(session, "log", "hello", 5);
  const json next = ask({{"verb", "events"}, {"since", first["last_number"]}});
  REQUIRE(next["events"].size() == 1);
  CHECK(next["events"][0]["text"] == "hello");
}

TEST_CASE_METHOD(ControlFixture, "AddressesAreForTheirOwnUserAndAdministrators") {
  Session& reporting = *registry.find(session);
  Segment& segment = reporting.segment();
  void* base = ::mmap(nullptr, segment.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, segment.fd(), 0);
  REQUIRE(base != MAP_FAILED);
  auto* ring = reinterpret_cast<wire::EventRing*>(static_cast<std::byte*>(base) + segment.ring_offset());
  wire::RingWriter(ring, wire::slots_of(ring), Segment::ring_capacity)
      .push({.time_ns = 9, .address = 0x1000, .call_site = 7, .bytes = 4096, .kind = wire::EventKind::alloc});
  registry.take_in(1);
  ::munmap(base, segment.bytes());
  const auto event = [&](const Peer& reader) { return ask({{"verb", "events"}}, reader)["events"].back(); };
  const auto site = [&](const Peer& reader) {
    return ask({{"verb", "lifetimes"}, {"job", "train"}}, reader)["lifetimes"][0]["sites"][0];
  };
  for (const Peer& reader : {owner, root}) {
    CHECK(event(reader)["address"] == 0x1000);
    CHECK(event(reader)["call_site"] == 7);
    CHECK(site(reader)["call_site"] == 7);
  }
  CHECK(event(stranger)["bytes"] == 4096);
  CHECK_FALSE(event(stranger).contains("address"));
  CHECK_FALSE(event(stranger).contains("call_site"));
  CHECK(site(stranger)["allocations"] == 1);
  CHECK_FALSE(site(stranger).contains("call_site"));
}

TEST_CASE_METHOD(ControlFixture, "a summary outlives the job") {
  registry.end(session, "closed", 9);
  const json reply = ask({{"verb", "summary"}, {"job", "train"}});
  REQUIRE(reply["ok"] == true);
  CHECK(reply["summary"]["ended_processes"] == 1);
  CHECK(reply["summary"]["running_processes"] == 0);
  CHECK(reply["summary"]["totals"]["faults"] == 0);
  CHECK(reply["summary"]["budget_bytes"] == 2 * gib);
  CHECK(ask({{"verb", "summary"}, {"job", "nobody"}})["errno"] == ENOENT);
}

TEST_CASE_METHOD(ControlFixture, "lifetimes are listed per process") {
  const json reply = ask({{"verb", "lifetimes"}, {"job", "train"}});
  CHECK(reply["lifetimes"][0]["id"] == session);
  CHECK(ask({{"verb", "lifetimes"}, {"job", "nobody"}})["errno"] == ENOENT);
}

TEST_CASE_METHOD(ControlFixture, "a budget is changed by the owner and root, not by others") {
  const json request{{"verb", "set_budget"}, {"job", "train"}, {"bytes", 3 * gib}};
  CHECK(ask(request, stranger)["errno"] == EPERM);
  CHECK(registry.arbiter().job_budget_bytes({owner.uid, "train"}) == 2 * gib);
  CHECK(ask(request, owner)["ok"] == true);
  CHECK(registry.arbiter().job_budget_bytes({owner.uid, "train"}) == 3 * gib);
  CHECK(ask(request, root)["ok"] == true);
}

TEST_CASE_METHOD(ControlFixture, "a budget that does not fit is refused with what is available") {
  const json reply = ask({{"verb", "set_budget"}, {"job", "train"}, {"bytes", 9 * gib}});
  CHECK(reply["ok"] == false);
  CHECK(reply["errno"] == ENOSPC);
  CHECK(reply["available_bytes"] == 8 * gib);
  CHECK(ask({{"verb", "set_budget"}, {"job", "train"}})["errno"] == EINVAL);
  CHECK(ask({{"verb", "set_budget"}, {"job", "train"}, {"bytes", -5}})["errno"] == EINVAL);
}

TEST_CASE_METHOD(ControlFixture, "a weight is changed by the owner and root, not by others") {
  const json request{{"verb", "set_weight"}, {"job", "train"}, {"weight", 3}};
  CHECK(ask(request, stranger)["errno"] == EPERM);
  CHECK(ask({{"verb", "status"}})["jobs"][0].count("weight") == 0);
  const json reply = ask(request, owner);
  CHECK(reply["ok"] == true);
  CHECK(reply["previous_weight"] == 1);
  CHECK(reply["is_lent"] == false);  // it was promised 2 GiB
  CHECK(ask({{"verb", "status"}})["jobs"][0]["weight"] == 3);
  CHECK(ask({{"verb", "set_weight"}, {"job", "train"}})["errno"] == EINVAL);
  CHECK(ask({{"verb", "set_weight"}, {"job", "train"}, {"weight", -1}})["errno"] == EINVAL);
  CHECK(ask({{"verb", "set_weight"}, {"job", "nobody"}, {"weight", 3}})["errno"] == ENOENT);
}

TEST_CASE_METHOD(ControlFixture, "what an administrator limits the owner cannot change, and sees") {
  const json request{{"verb", "set_limit"}, {"job", "train"}, {"bytes", gib}};
  CHECK(ask(request, stranger)["errno"] == EPERM);
  const json reply = ask(request, root);
  CHECK(reply["ok"] == true);
  CHECK(reply["dram_limit_bytes"] == gib);
  CHECK(reply["budget_bytes"] == gib);
  CHECK(reply.count("previous_limit_bytes") == 0);
  const json job = ask({{"verb", "status"}})["jobs"][0];
  CHECK(job["dram_limit_bytes"] == gib);
  CHECK(job["budget_bytes"] == gib);
  CHECK(ask({{"verb", "set_limit"}, {"job", "train"}, {"bytes", 0}}, owner)["errno"] == EPERM);
  CHECK(ask({{"verb", "set_budget"}, {"job", "train"}, {"bytes", 2 * gib}}, owner)["errno"] == EINVAL);
  const json none = ask({{"verb", "set_limit"}, {"job", "train"}, {"bytes", 0}}, root);
  CHECK(none["previous_limit_bytes"] == gib);
  CHECK(none.count("dram_limit_bytes") == 0);
  CHECK(none["budget_bytes"] == 2 * gib);
  for (const json& wrong : {json(-1), json("1g"), json(), json(1.5)})
    CHECK(ask({{"verb", "set_limit"}, {"job", "train"}, {"bytes", wrong}})["errno"] == EINVAL);
  CHECK(ask({{"verb", "set_limit"}, {"job", "nobody"}, {"bytes", gib}})["errno"] == ENOENT);
}

TEST_CASE_METHOD(ControlFixture, "status says what groups have, and jobs say of which they are") {
  UserShares users;
  users.add_group({.name = "lab", .weight = 2, .guarantee_bytes = gib, .limit_bytes = 4 * gib}, {owner.uid});
  registry.change_arbiter().set_users(users);
  const json status = ask({{"verb", "status"}});
  CHECK(status["jobs"][0]["group"] == "lab");
  REQUIRE(status["groups"].size() == 1);
  const json& group = status["groups"][0];
  CHECK(group["group"] == "lab");
  CHECK(group["weight"] == 2);
  CHECK(group["guarantee_bytes"] == gib);
  CHECK(group["limit_bytes"] == 4 * gib);
  CHECK(group["promised_bytes"] == 2 * gib);
}

TEST_CASE_METHOD(ControlFixture, "jobs say what the settings give their name, and the narrowest limit") {
  const auto job = [&] { return ask({{"verb", "status"}})["jobs"][0]; };
  JobShares jobs;
  jobs.add({owner.uid}, "train", {.weight = 4, .guarantee_bytes = gib, .limit_bytes = 3 * gib});
  UserShares users;
  users.set_jobs(jobs);
  registry.change_arbiter().set_users(users);
  CHECK(job()["weight"] == 4);
  CHECK(job()["guarantee_bytes"] == gib);
  CHECK(job()["dram_limit_bytes"] == 3 * gib);
  const auto limit = [&](std::uint64_t bytes, const Peer& by) {
    CHECK(ask({{"verb", "set_limit"}, {"job", "train"}, {"bytes", bytes}}, by)["ok"] == true);
    return job()["dram_limit_bytes"];
  };
  CHECK(limit(4 * gib, owner) == 3 * gib);
  CHECK(limit(2 * gib, owner) == 2 * gib);
  CHECK(limit(4 * gib, root) == 4 * gib);
  CHECK(limit(0, root) == 3 * gib);
  registry.change_arbiter().set_users({});
  CHECK(job().count("dram_limit_bytes") == 0);
  CHECK(job().count("guarantee_bytes") == 0);
}

TEST_CASE_METHOD(ControlFixture, "trim reaches every process of the job") {
  const SessionId second = join("train");
  const auto outcome = ask_text(R"({"verb":"trim","job":"train"})");
  CHECK(outcome.trim == std::vector<SessionId>{session, second});
  CHECK(ask_text(R"({"verb":"trim","job":"train"})", stranger).trim.empty());
  CHECK(ask_text(R"({"verb":"trim","job":"nobody"})").reply["errno"] == ENOENT);
}

TEST_CASE_METHOD(ControlFixture, "only a private daemon is shut down, and only by its user") {
  const std::string request = R"({"verb":"shutdown"})";
  CHECK_FALSE(ask_text(request, root).shut_down);
  is_private = true;
  CHECK_FALSE(ask_text(request, stranger).shut_down);
  CHECK(ask_text(request, Peer{1, ::geteuid(), 0}).shut_down);
}

TEST_CASE_METHOD(ControlFixture, "requests that make no sense are answered, not obeyed") {
  const auto* text =
      GENERATE("", "{", "[]", "null", "42", "\"ping\"", "{}", R"({"verb":7})", R"({"verb":"dance"})",
               R"({"verb":"trim"})", R"({"verb":"summary","job":["train"]})", "\xff\xfe");
  CAPTURE(text);
  const auto outcome = ask_text(text);
  CHECK(outcome.reply["ok"] == false);
  CHECK(outcome.reply["error"].is_string());
  CHECK_FALSE(outcome.shut_down);
}

TEST_CASE_METHOD(ControlFixture, "an unknown verb lists the known ones") {
  CHECK_THAT(ask({{"verb", "dance"}})["error"].get<std::string>(),
             Contains("dance") && Contains("set_budget"));
}

TEST_CASE_METHOD(ControlFixture, "numbers out of range fall back to the defaults") {
  CHECK(ask({{"verb", "events"}, {"last", -1}})["events"].size() == 1);
  CHECK(ask({{"verb", "events"}, {"last", 1e300}})["events"].size() == 1);
  CHECK(ask({{"verb", "events"}, {"since", ~std::uint64_t{0}}})["events"].empty());
}

TEST_CASE("a user who asks without end gets a tenth of the daemon's time, and others theirs") {
  constexpr std::uint64_t ms = 1'000'000, answer_ns = 5 * ms;
  ControlLimit limit;
  std::uint64_t now = 1'000'000 * ms, spent = 0;
  const std::uint64_t end = now + 10'000 * ms;
  while (now < end) {
    const bool is_answered = limit.may_ask(1000, now);
    if (is_answered) limit.charge(1000, now, answer_ns);
    spent += is_answered ? answer_ns : 0;
    now += is_answered ? answer_ns : ms;
    CHECK(limit.may_ask(1001, now));
  }
  CHECK(spent >= 1000 * ms);
  CHECK(spent <= 1000 * ms + ControlLimit::burst_ns + answer_ns);
  CHECK(limit.may_ask(1000, now + 1000 * ms));
}

TEST_CASE_METHOD(ControlFixture, "ABudgetThatIsChangedIsAnsweredWithTheOneBefore") {
  const json reply = ask({{"verb", "set_budget"}, {"job", "train"}, {"bytes", 3 * gib}});
  CHECK(reply["previous_bytes"] == 2 * gib);
  CHECK(reply["budget_bytes"] == 3 * gib);
}

TEST_CASE_METHOD(ControlFixture, "OnlyOwnersAndAdministratorsPauseAndResume") {
  for (const char* verb : {"pause", "resume"}) {
    const json request{{"verb", verb}, {"job", "train"}};
    CHECK(ask(request, stranger)["errno"] == EPERM);
    CHECK(ask({{"verb", verb}, {"job", "nobody"}})["errno"] == ENOENT);
    CHECK(ask(request, owner)["ok"] == true);
    CHECK(ask(request, root)["ok"] == true);
  }
}

TEST_CASE_METHOD(ControlFixture, "APausedJobIsShownAsOneAndKeepsItsBudgetForLater") {
  const json request{{"verb", "pause"}, {"job", "train"}, {"stays", true}};
  const json paused = ask(request)["job"];
  CHECK(paused["paused"] == true);
  CHECK(paused["budget_bytes"] == Arbiter::minimum_bytes);
  CHECK(ask({{"verb", "status"}})["jobs"][0]["paused"] == true);
  CHECK(ask({{"verb", "set_budget"}, {"job", "train"}, {"bytes", gib}})["errno"] == EBUSY);
  const json resumed = ask({{"verb", "resume"}, {"job", "train"}})["job"];
  CHECK_FALSE(resumed.contains("paused"));
  CHECK(resumed["budget_bytes"] == 2 * gib);
}
