// What is said of a job that cannot be paused: the reason of who keeps memory, and nobody else's.
#include "tools/cli/change/staying.h"

#include <catch2/catch.hpp>

#include "tests/units.h"

using namespace terrace::cli;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

using terrace::tests::mib;

json session_of(std::uint64_t resident_bytes, std::uint64_t pool_used_bytes = 16 * mib) {
  return {{"pid", 12},
          {"granted_bytes", 4 * mib},
          {"heartbeat_age_seconds", 0.1},
          {"pool_capacity_bytes", 512 * mib},
          {"pool_limit_bytes", 128 * mib},
          {"statistics",
           {{"budget_bytes", 4 * mib},
            {"resident_bytes", resident_bytes},
            {"pool_used_bytes", pool_used_bytes}}}};
}

json engine_of(const char* device, std::uint64_t resident_bytes) {
  json session = session_of(resident_bytes);
  session["device"] = device;
  return session;
}

std::string reason(std::vector<json> sessions, const json& more = json::object()) {
  std::uint64_t resident = 0;
  for (const json& session : sessions) resident += counter_of(session, "resident_bytes");
  json job{{"sessions", std::move(sessions)}, {"totals", {{"resident_bytes", resident}}}};
  job.update(more);
  return why_it_stays(job);
}

}  // namespace

TEST_CASE("A full pool is named where it is the one of who keeps memory") {
  const json full = session_of(20 * mib, 126 * mib), full_at_floor = session_of(4 * mib, 126 * mib);
  CHECK_THAT(reason({full}),
             Contains("20.0 MiB of its memory do not leave: its pool is full") && Contains("[pool] size"));
  CHECK_THAT(reason({full_at_floor, engine_of("cpu", 10 * mib)}),
             !Contains("full") && Contains("14.0 MiB of its memory do not leave: process 12 keeps 10.0 MiB"));
  json none = session_of(20 * mib, 0);
  none.erase("pool_limit_bytes");  // the daemon leaves out what is 0
  CHECK_THAT(reason({none}), Contains("its pool is full"));
}

TEST_CASE("What comes back as fast as it leaves is said to be in use") {
  CHECK_THAT(reason({session_of(4 * mib), engine_of("cpu", 3 * mib)}),
             Contains("7.00 MiB of its memory do not leave at once: what has left it comes back") &&
                 Contains("ask again"));
}

TEST_CASE("An engine without a drive and one that uses its memory are told apart") {
  json without = engine_of("cuda:0", 10 * mib);
  without.erase("pool_capacity_bytes");
  without.erase("pool_limit_bytes");
  CHECK_THAT(reason({without}), Contains("what is offloaded of cuda:0, for which it has no drive") &&
                                    Contains("--offload-tiers"));
  CHECK_THAT(reason({engine_of("optimizer", 10 * mib)}),
             Contains("an optimizer's states, which it has in use") && Contains("ask again"));
  json failed = engine_of("optimizer", 10 * mib);
  failed["statistics"]["io_errors"] = 3;
  CHECK_THAT(reason({failed}), Contains("its drive has failed to take or to bring back 3 times"));
}

TEST_CASE("Who is not heard of and who may write no more is said to be so") {
  json silent = session_of(20 * mib, 126 * mib);
  silent["heartbeat_age_seconds"] = 9.4;
  CHECK_THAT(reason({silent}), Contains("process 12 has not been heard of for 9 s"));
  json deaf = session_of(4 * mib);  // it has not obeyed yet
  deaf["statistics"]["budget_bytes"] = 64 * mib;
  CHECK_FALSE(is_at_floor(deaf));
  CHECK_THAT(reason({session_of(20 * mib)}, {{"writes_left_bytes", mib}}),
             Contains("no more may be written to its drive today"));
  CHECK_THAT(reason({session_of(20 * mib)}, {{"writes_left_bytes", 64 * mib}}), Contains("`terrace events`"));
}

TEST_CASE("Memory that is pinned is said to be") {
  json pinned = session_of(20 * mib);
  pinned["statistics"]["pinned_refusals"] = 1;
  CHECK_THAT(reason({pinned}), Contains("it is locked in memory (mlock) or pinned"));
  pinned["statistics"]["resident_bytes"] = 4 * mib;
  CHECK_THAT(reason({pinned, engine_of("cpu", 10 * mib)}), !Contains("mlock"));
}
