// Heaps on GPUs among the sessions: they take no DRAM, and what they say of a device counts nowhere else.
#include <sys/mman.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>

#include "daemon/control/control.h"
#include "daemon/sessions/registry.h"
#include "tests/units.h"

using namespace terrace;
using namespace terrace::daemon;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

using terrace::tests::gib;
using terrace::tests::mib;

struct Heaps {
  Registry registry{8 * gib, Pools("/nonexistent", gib, false)};
  std::uint64_t now = 1;
  Config config;

  Heaps() { registry.change_gpu().set_rules(Amount::percent(100), {}, 1); }
  static wire::Hello heap_of(const char* job, const char* device = "card", std::uint64_t bytes = 16 * gib) {
    wire::Hello hello = wire::make<wire::Hello>();
    wire::copy_text(hello.job, sizeof hello.job, job);
    wire::copy_text(hello.program, sizeof hello.program, device);
    hello.flags = wire::hello_is_gpu_heap;
    hello.pool_capacity_bytes = bytes;
    return hello;
  }
  Admission admit(const wire::Hello& hello, std::uint32_t uid = 1000) {
    return registry.admit(hello, {1, uid, uid}, std::nullopt, now);
  }
  Session& joined(const wire::Hello& hello, std::uint32_t uid = 1000) {
    Admission admission = admit(hello, uid);
    REQUIRE(admission.session != nullptr);
    registry.announcements();
    return *admission.session;
  }
  // As its process does, in the memory that both share.
  static void report(Session& session, std::uint64_t held, std::uint64_t wanted) {
    Segment& segment = session.segment();
    void* base = ::mmap(nullptr, segment.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, segment.fd(), 0);
    REQUIRE(base != MAP_FAILED);
    auto* stats = reinterpret_cast<wire::JobStats*>(static_cast<std::byte*>(base) + segment.stats_offset());
    stats->set(wire::Stat::resident_bytes, held);
    stats->set(wire::Stat::heap_live_bytes, wanted);
    stats->set(wire::Stat::heartbeat_ns, 1);
    ::munmap(base, segment.bytes());
  }
  void pass_rounds(unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      now += Registry::round_ns;
      registry.take_turn(now);
      registry.announcements();
    }
  }
  json ask(const json& request, std::uint32_t uid = 0) {
    return answer(request.dump(), {1, uid, uid}, {registry, config, false, now, 0}).reply;
  }
};

}  // namespace

TEST_CASE_METHOD(Heaps, "AHeapTakesNoDramAndCountsInNoSumOfIt") {
  Session& heap = joined(heap_of("train"));
  CHECK(registry.granted_bytes(heap.id()) == 16 * gib);
  CHECK(registry.arbiter().granted_bytes(heap.id()) == 0);
  report(heap, 5 * gib, 6 * gib);
  pass_rounds(3);
  const json tiers = ask({{"verb", "tiers"}})["tiers"];
  CHECK(tiers[0]["used_bytes"] == 0);
  CHECK(tiers[0]["granted_bytes"] == 0);
  CHECK(tiers[2]["used_bytes"] == 5 * gib);
  const json job = ask({{"verb", "jobs"}})["jobs"][0];
  CHECK(job["totals"]["resident_bytes"] == 0);
  CHECK(job["gpu_held_bytes"] == 5 * gib);
  CHECK(job["gpu_heaps"][0]["wanted_bytes"] == 6 * gib);
  // A job of DRAM beside it has all of that.
  wire::Hello pager = wire::make<wire::Hello>();
  wire::copy_text(pager.job, sizeof pager.job, "other");
  Session& other = joined(pager, 2000);
  CHECK(registry.granted_bytes(other.id()) == 8 * gib);
  registry.end(heap.id(), "gone", now);
  CHECK_FALSE(registry.ended_jobs().contains({1000, "train"}));
  CHECK(registry.gpu().devices().empty());
}

TEST_CASE_METHOD(Heaps, "AHeapAndAPagerOfOneNameAreOneJob") {
  wire::Hello pager = wire::make<wire::Hello>();
  wire::copy_text(pager.job, sizeof pager.job, "train");
  pager.weight = 5;
  joined(pager);
  joined(heap_of("train"));
  const json jobs = ask({{"verb", "jobs"}})["jobs"];
  REQUIRE(jobs.size() == 1);
  CHECK(jobs[0]["sessions"].size() == 1);
  CHECK(jobs[0]["gpu_heaps"].size() == 1);
  // The job's weight counts on the device, too: five parts to one.
  joined(heap_of("light"));
  pass_rounds(2);
  const std::uint64_t heavy = registry.gpu().job_budget_bytes("card", {1000, "train"});
  CHECK(heavy / mib == 16 * gib / 6 * 5 / mib);
  CHECK(ask({{"verb", "set_weight"}, {"job", "light"}, {"uid", 1000}, {"weight", 5}})["ok"] == true);
  CHECK(registry.gpu().job_budget_bytes("card", {1000, "train"}) / mib <= 8 * gib / mib);
  CHECK(registry.gpu().job_budget_bytes("card", {1000, "light"}) / mib >= 8 * gib / mib - 1);
  CHECK(ask({{"verb", "set_weight"}, {"job", "none"}, {"weight", 5}})["errno"] == ENOENT);
}

TEST_CASE_METHOD(Heaps, "AHeapThatKeepsWhatOthersWaitForIsNamedWithWhatItHolds") {
  Session& first = joined(heap_of("first"));
  report(first, 12 * gib, 12 * gib);
  pass_rounds(3);
  joined(heap_of("second"), 2000);
  pass_rounds(Arbiter::patience_rounds + 10);
  const auto entries = registry.journal().after(0, Journal::capacity);
  const auto overdue = std::find_if(entries.begin(), entries.end(),
                                    [](const auto* entry) { return std::string(entry->kind) == "overdue"; });
  REQUIRE(overdue != entries.end());
  CHECK((*overdue)->session == first.id());
  CHECK_THAT((*overdue)->text, Contains("8.0 GiB of card, and holds and uses 12.0 GiB"));
}

TEST_CASE_METHOD(Heaps, "AHeapThatComesBackUnknownIsTreatedAsNew") {
  registry.expect(Claims({}), ~std::uint64_t{0});
  wire::Hello back = heap_of("train");
  back.flags |= wire::hello_reattach;
  back.held_budget_bytes = 16 * gib;
  registry.change_gpu().set_rules(Amount::percent(100), {}, 1);
  joined(heap_of("first"), 2000);
  const Admission admission = admit(back);
  REQUIRE(admission.session != nullptr);
  CHECK_FALSE(admission.is_expected);
  CHECK(registry.granted_bytes(admission.session->id()) == 0);  // until the first one has given way
}

TEST_CASE_METHOD(Heaps, "AHeapOnADeviceThatCannotBeIsRefused") {
  const Admission none = admit(heap_of("train", "card", 0));
  REQUIRE(none.refusal);
  CHECK(none.refusal->error == EINVAL);
  CHECK(registry.sessions().empty());
  CHECK(registry.gpu().devices().empty());
  const auto entries = registry.journal().after(0, 10);
  REQUIRE(entries.size() == 1);
  CHECK(std::string(entries[0]->kind) == "refused");
}

// An older client knows no heaps, and a greeting of its kind is what it always was.
TEST_CASE_METHOD(Heaps, "GreetingsWithoutTheFlagAreOfDram") {
  wire::Hello hello = heap_of("train");
  hello.flags = 0;
  hello.features &= ~wire::feature_gpu_heaps;
  Session& session = joined(hello);
  CHECK_FALSE(session.is_gpu_heap());
  CHECK(registry.granted_bytes(session.id()) == 8 * gib);
  CHECK(registry.gpu().devices().empty());
}
