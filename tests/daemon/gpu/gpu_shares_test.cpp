// Who may hold how much of each GPU: the division, what heaps say of a device, and histories of heaps that
// give back at once, slowly, or never.
#include "daemon/gpu/gpu_shares.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <map>
#include <random>
#include <utility>

#include "tests/units.h"

using namespace terrace::daemon;
using Catch::Matchers::Contains;
using terrace::wire::Amount;

namespace {

using terrace::tests::gib;
using terrace::tests::mib;

constexpr std::uint32_t anna = 1000, bert = 1001, cleo = 1002;
constexpr std::uint64_t card_bytes = 16 * gib;

GpuClaim on(const char* device, std::uint64_t bytes = card_bytes) {
  return {.device = device, .device_bytes = bytes};
}

struct Cards {
  GpuShares gpu;
  UserShares users;

  Cards() { say(Amount::percent(100), card_bytes); }
  void say(Amount memory, std::uint64_t whole) { gpu.set_rules(memory, users, whole); }
  // Heaps that use all they are granted, would use more, and give up at once.
  void settle(SessionId last, int rounds = 10) {
    for (int i = 0; i < rounds; ++i) {
      gpu.rebalance();
      for (SessionId id = 1; id <= last; ++id) gpu.observe(id, {gpu.granted_bytes(id), 64 * gib});
      gpu.end_round();
    }
  }
};

}  // namespace

TEST_CASE_METHOD(Cards, "EachDeviceIsDividedByItself") {
  REQUIRE_FALSE(gpu.join(1, {anna, "a"}, on("one")));
  REQUIRE_FALSE(gpu.join(2, {bert, "a"}, on("one")));
  REQUIRE_FALSE(gpu.join(3, {bert, "a"}, on("two", 8 * gib)));
  settle(3);
  CHECK(gpu.granted_bytes(1) == 8 * gib);
  CHECK(gpu.granted_bytes(2) == 8 * gib);
  CHECK(gpu.granted_bytes(3) == 8 * gib);
  const auto devices = gpu.devices();
  REQUIRE(devices.size() == 2);
  CHECK(devices.at("one").granted_bytes == 16 * gib);
  CHECK(devices.at("one").sessions == 2);
  CHECK(devices.at("two").reported_bytes == 8 * gib);
  gpu.leave(3);
  CHECK(gpu.devices().size() == 1);
}

TEST_CASE_METHOD(Cards, "WeightsDivideADeviceAmongUsersAndJobs") {
  users.set(anna, {.weight = 3});
  say(Amount::percent(100), card_bytes);
  REQUIRE_FALSE(gpu.join(1, {anna, "a"}, on("one")));
  GpuClaim heavy = on("one");
  heavy.weight = 3;
  REQUIRE_FALSE(gpu.join(2, {bert, "heavy"}, heavy));
  REQUIRE_FALSE(gpu.join(3, {bert, "light"}, on("one")));
  settle(3);
  CHECK(gpu.granted_bytes(1) / mib == 12 * gib / mib);
  CHECK(gpu.granted_bytes(2) / mib == 3 * gib / mib);
  CHECK(gpu.granted_bytes(3) / mib == gib / mib);
  CHECK(gpu.set_job_weight({bert, "light"}, 3));
  CHECK_FALSE(gpu.set_job_weight({bert, "none"}, 3));
  settle(3);
  CHECK(gpu.granted_bytes(3) / mib >= 2 * gib / mib - 1);
}

TEST_CASE_METHOD(Cards, "OnlyAPartOfADeviceIsDividedAndRulesArePartsOfThat") {
  users.set(anna, {.guarantee_bytes = gib / 4, .limit_bytes = gib / 2});
  say(Amount::percent(50), gib);
  REQUIRE_FALSE(gpu.join(1, {bert, "a"}, on("one")));
  settle(1);
  CHECK(gpu.granted_bytes(1) == 8 * gib - 2 * gib);  // Anna's quarter is kept
  REQUIRE_FALSE(gpu.join(2, {anna, "a"}, on("one")));
  settle(2);
  CHECK(gpu.granted_bytes(2) == 4 * gib);
  CHECK(gpu.granted_bytes(1) == 4 * gib);
  gpu.leave(1);
  settle(2);
  CHECK(gpu.granted_bytes(2) == 4 * gib);  // her limit
}

TEST_CASE_METHOD(Cards, "WhatIsGuaranteedIsThereAtOnceWhoeverHoldsTheRestForGood") {
  users.set(anna, {.guarantee_bytes = 4 * gib});
  say(Amount::percent(100), card_bytes);
  REQUIRE_FALSE(gpu.join(1, {bert, "a"}, on("one")));
  settle(1);
  REQUIRE(gpu.granted_bytes(1) == 12 * gib);
  REQUIRE_FALSE(gpu.join(2, {anna, "a"}, on("one")));
  gpu.rebalance();
  CHECK(gpu.granted_bytes(2) >= 4 * gib);
  CHECK(gpu.is_waited_for(1));  // for the rest of her half
  for (unsigned i = 0; i <= Arbiter::patience_rounds; ++i) gpu.end_round();
  CHECK_FALSE(gpu.is_waited_for(1));
  gpu.rebalance();
  CHECK(gpu.granted_bytes(2) >= 8 * gib - gib / 4);
}

TEST_CASE_METHOD(Cards, "NoUserIsGrantedMoreThanTheCapForAll") {
  users.set_cap(6 * gib);
  users.set(bert, {.guarantee_bytes = 7 * gib});
  say(Amount::percent(100), card_bytes);
  REQUIRE_FALSE(gpu.join(1, {anna, "a"}, on("one")));
  REQUIRE_FALSE(gpu.join(2, {anna, "b"}, on("one")));
  settle(2);
  CHECK(gpu.granted_bytes(1) + gpu.granted_bytes(2) <= 6 * gib);
  CHECK(gpu.granted_bytes(1) + gpu.granted_bytes(2) + mib >= 6 * gib);
  gpu.leave(2);
  REQUIRE_FALSE(gpu.join(3, {bert, "a"}, on("one")));
  settle(3);
  CHECK(gpu.granted_bytes(3) == 7 * gib);  // a guarantee goes before it
}

// One holds too much and gives none of it; of what is free the newcomer has no part that is an absent one's.
TEST_CASE_METHOD(Cards, "WhatIsKeptForAUserIsNotHandedOutWhileAnotherHoldsTooMuch") {
  users.set(anna, {.guarantee_bytes = 4 * gib});
  say(Amount::percent(100), card_bytes);
  REQUIRE_FALSE(gpu.join(1, {bert, "a"}, on("one")));
  settle(1);
  REQUIRE_FALSE(gpu.join(2, {cleo, "a"}, on("one")));
  for (int i = 0; i < 10; ++i) {
    gpu.rebalance();
    gpu.observe(1, {12 * gib, 12 * gib});
    gpu.observe(2, {gpu.granted_bytes(2), 12 * gib});
  }
  CHECK(gpu.granted_bytes(1) == 6 * gib);
  CHECK(gpu.granted_bytes(2) <= Arbiter::starting_bytes);
  REQUIRE_FALSE(gpu.join(3, {anna, "a"}, on("one")));
  gpu.rebalance();
  CHECK(gpu.granted_bytes(3) + Arbiter::starting_bytes >= 4 * gib);
}

// Her job is limited, so that the rest of her guarantee waits for the next one, however often she is looked
// at.
TEST_CASE_METHOD(Cards, "WhatAUserHoldsCountsOnceAgainstHerGuarantee") {
  JobShares jobs;
  jobs.add({anna}, "small", {.limit_bytes = 3 * gib});
  users.set_jobs(std::move(jobs));
  users.set(anna, {.guarantee_bytes = 8 * gib});
  say(Amount::percent(100), card_bytes);
  REQUIRE_FALSE(gpu.join(1, {bert, "a"}, on("one")));
  settle(1);
  REQUIRE_FALSE(gpu.join(2, {anna, "small"}, on("one")));
  REQUIRE_FALSE(gpu.join(3, {cleo, "a"}, on("one")));
  for (SessionId id = 4; id < 10; ++id) {
    gpu.rebalance();
    gpu.observe(1, {8 * gib, 8 * gib});  // he gives nothing back
    gpu.observe(2, {gpu.granted_bytes(2), 3 * gib});
    CHECK(gpu.granted_bytes(2) == 3 * gib);
    CHECK(gpu.granted_bytes(3) <= Arbiter::starting_bytes);
    REQUIRE_FALSE(gpu.join(id, {cleo, "a"}, on("one")));  // then all are looked at anew
  }
}

TEST_CASE_METHOD(Cards, "WhoDoesNotGiveIsNamedOnce") {
  REQUIRE_FALSE(gpu.join(1, {bert, "a"}, on("one")));
  settle(1);
  REQUIRE_FALSE(gpu.join(2, {anna, "a"}, on("one")));
  std::vector<SessionId> named;
  for (unsigned i = 0; i < 2 * Arbiter::patience_rounds; ++i) {
    gpu.rebalance();
    gpu.observe(1, {16 * gib, 16 * gib});
    for (const SessionId id : gpu.end_round()) named.push_back(id);
  }
  CHECK(named == std::vector<SessionId>{1});
}

TEST_CASE_METHOD(Cards, "RanksOfOneJobShareItsPartOfADevice") {
  JobShares jobs;
  jobs.add({anna}, "train", {.limit_bytes = 6 * gib});
  users.set_jobs(std::move(jobs));
  say(Amount::percent(100), card_bytes);
  REQUIRE_FALSE(gpu.join(1, {anna, "train"}, on("one")));
  REQUIRE_FALSE(gpu.join(2, {anna, "train"}, on("one")));
  settle(2);
  CHECK(gpu.granted_bytes(1) + gpu.granted_bytes(2) == 6 * gib);
  CHECK(gpu.job_budget_bytes("one", {anna, "train"}) == 6 * gib);
}

TEST_CASE_METHOD(Cards, "OneLiarAmongSeveralUsersDoesNotSayHowLargeADeviceIs") {
  REQUIRE_FALSE(gpu.join(1, {anna, "a"}, on("one")));
  REQUIRE_FALSE(gpu.join(2, {bert, "a"}, on("one")));
  REQUIRE_FALSE(gpu.join(3, {cleo, "a"}, on("one", 8 * mib)));
  CHECK(gpu.devices().at("one").device_bytes == card_bytes);
  for (SessionId id = 4; id < 20; ++id) REQUIRE_FALSE(gpu.join(id, {cleo, "b"}, on("one", 1024 * gib)));
  CHECK(gpu.devices().at("one").device_bytes == card_bytes);
  gpu.leave(3);
  CHECK(gpu.devices().at("one").device_bytes == card_bytes);  // of what he says too much
  REQUIRE_FALSE(gpu.join(3, {cleo, "a"}, on("one", 8 * mib)));
  gpu.leave(1);
  gpu.leave(2);
  CHECK(gpu.devices().at("one").device_bytes == 8 * mib);
}

TEST_CASE_METHOD(Cards, "NoMoreIsDividedThanTheSettingsSayNorThanADeviceHas") {
  say({Amount::Unit::bytes, 12 * gib}, 12 * gib);
  REQUIRE_FALSE(gpu.join(1, {anna, "a"}, on("one", 1024 * gib)));
  REQUIRE_FALSE(gpu.join(2, {anna, "a"}, on("small", 4 * gib)));
  settle(2);
  CHECK(gpu.granted_bytes(1) == 12 * gib);
  CHECK(gpu.granted_bytes(2) == 4 * gib);
}

TEST_CASE_METHOD(Cards, "DevicesThatThereCannotBeAreRefused") {
  CHECK(gpu.join(1, {anna, "a"}, on("", card_bytes))->error == EINVAL);
  CHECK_THAT(gpu.join(1, {anna, "a"}, on("none", 0))->reason, Contains("\"none\""));
  CHECK(gpu.join(1, {anna, "a"}, on("one", ~std::uint64_t{0}))->error == EINVAL);
  for (SessionId id = 1; id <= GpuShares::most_devices_of_user; ++id)
    REQUIRE_FALSE(gpu.join(id, {anna, "a"}, on(std::to_string(id).c_str())));
  CHECK(gpu.join(100, {anna, "a"}, on("another"))->error == EUSERS);
  CHECK_FALSE(gpu.join(100, {anna, "a"}, on("1")));
  CHECK_FALSE(gpu.join(101, {bert, "a"}, on("another")));
}

TEST_CASE_METHOD(Cards, "WhereAllIsGuaranteedToOthersAHeapIsRefusedWithTheReason") {
  users.set(anna, {.guarantee_bytes = card_bytes});
  say(Amount::percent(100), card_bytes);
  const auto refusal = gpu.join(1, {bert, "a"}, on("one"));
  REQUIRE(refusal);
  CHECK(refusal->error == ENOSPC);
  CHECK_THAT(refusal->reason, Contains("gpu_guarantee"));
  CHECK(gpu.devices().empty());
  CHECK_FALSE(gpu.join(1, {anna, "a"}, on("one")));
}

TEST_CASE_METHOD(Cards, "AHeapThatComesBackHasWhatItHadWithinItsPart") {
  users.set(anna, {.guarantee_bytes = 4 * gib});
  say(Amount::percent(100), card_bytes);
  GpuClaim back = on("one");
  back.is_back = true;
  back.held_bytes = 16 * gib;
  REQUIRE_FALSE(gpu.join(1, {bert, "a"}, back));
  CHECK(gpu.granted_bytes(1) == 12 * gib);
  REQUIRE_FALSE(gpu.join(2, {anna, "a"}, on("one")));
  gpu.rebalance();
  CHECK(gpu.granted_bytes(2) >= Arbiter::minimum_bytes);  // he holds all as yet
  gpu.observe(1, {8 * gib, 8 * gib});
  gpu.rebalance();
  CHECK(gpu.granted_bytes(2) == 8 * gib);
}

// ---- histories --------------------------------------------------------------------------------------------

namespace {

enum class Yields { at_once, slowly, never };

// Heaps of grouped and other users on two devices. What one holds is what it was granted and used; who gives
// slowly or never goes on holding it.
struct HeapHistory : Cards {
  struct HeapOf {
    JobKey job;
    std::string device;
    std::uint64_t live = 0, held = 0;
    Yields yields = Yields::at_once;
  };
  std::mt19937_64 random;
  std::map<SessionId, HeapOf> heaps;
  std::map<std::pair<std::string, JobKey>, unsigned> rounds_without;
  std::map<std::pair<std::string, JobKey>, std::uint64_t> live_before;
  std::map<std::string, unsigned> since_change;
  SessionId next = 1;
  static constexpr std::uint64_t cap = 10 * gib;
  static constexpr std::uint64_t rounding = 64;  // fewer bytes than the weights sum to

  explicit HeapHistory(std::uint64_t seed) : random(seed) {
    users.set_cap(cap);
    users.set(1001, {.weight = 3, .guarantee_bytes = 2 * gib, .limit_bytes = 6 * gib});
    users.add_group({.name = "lab", .guarantee_bytes = 4 * gib, .limit_bytes = 8 * gib}, {1002, 1003});
    JobShares jobs;
    jobs.add({1004}, "0", {.guarantee_bytes = gib});
    jobs.add({1003}, "*", {.limit_bytes = 2 * gib});
    users.set_jobs(std::move(jobs));
    users.set_lends_idle(seed % 2 == 0);
    say(Amount::percent(100), card_bytes);
  }
  std::uint64_t below(std::uint64_t bound) { return random() % bound; }
  void change() {
    if (below(3) == 0 && !heaps.empty()) {
      const auto gone = std::next(heaps.begin(), static_cast<long>(below(heaps.size())));
      since_change[gone->second.device] = 0;
      gpu.leave(gone->first);
      heaps.erase(gone);
      return;
    }
    if (heaps.size() >= 16) return;
    const std::string device = below(3) == 0 ? "two" : "one";
    const JobKey job{1000 + static_cast<std::uint32_t>(below(5)), std::to_string(below(3))};
    if (gpu.join(next, job, on(device.c_str()))) return;
    since_change[device] = 0;
    heaps[next++] = {job, device, below(16 * gib), 0, static_cast<Yields>(below(3))};
  }
  void use() {
    for (auto& [id, heap] : heaps) {
      if (below(100) == 0) heap.live = below(3) == 0 ? 0 : below(16 * gib);
      const std::uint64_t granted = gpu.granted_bytes(id), wants = std::min(heap.live, granted);
      if (wants >= heap.held || heap.yields == Yields::at_once)
        heap.held = wants;
      else if (heap.yields == Yields::slowly)
        heap.held -= std::min(heap.held - wants, std::uint64_t{256} * mib);
      gpu.observe(id, {heap.held, heap.live});
    }
  }
  void round() {
    for (auto& [device, rounds] : since_change) ++rounds;
    gpu.rebalance();
    use();
    gpu.end_round();
  }
  std::uint64_t granted_to(const std::string& device, std::uint32_t first, std::uint32_t last) const {
    std::uint64_t sum = 0;
    for (const auto& [id, heap] : heaps)
      if (heap.device == device && heap.job.uid >= first && heap.job.uid <= last)
        sum += gpu.granted_bytes(id);
    return sum;
  }
  std::size_t heaps_on(const std::string& device) const {
    return static_cast<std::size_t>(std::count_if(
        heaps.begin(), heaps.end(), [&](const auto& one) { return one.second.device == device; }));
  }
  void check(const std::string& device) {
    // Each heap may have a start beyond, and what is too little to announce.
    const std::uint64_t slack = heaps_on(device) * (Arbiter::starting_bytes + card_bytes / 32);
    REQUIRE(granted_to(device, 1000, 1004) <= card_bytes + heaps_on(device) * Arbiter::minimum_bytes);
    for (std::uint32_t uid = 1000; uid <= 1004; ++uid) REQUIRE(granted_to(device, uid, uid) <= cap + slack);
    REQUIRE(granted_to(device, 1001, 1001) <= 6 * gib + slack);
    REQUIRE(granted_to(device, 1002, 1003) <= 8 * gib + slack);
    check_dues(device);
  }
  // What jobs are due, which grants follow.
  void check_dues(const std::string& device) {
    std::map<JobKey, std::uint64_t> due;
    for (const auto& [id, heap] : heaps)
      if (heap.device == device) due[heap.job] = gpu.job_budget_bytes(device, heap.job);
    std::uint64_t all = 0;
    std::map<std::uint32_t, std::uint64_t> of;
    for (const auto& [job, bytes] : due) {
      all += bytes;
      of[job.uid] += bytes;
      if (job.uid == 1003) REQUIRE(bytes <= 2 * gib);
      if (job == JobKey{1004, "0"}) REQUIRE(bytes + rounding >= gib);
    }
    REQUIRE(of[1001] <= 6 * gib);
    REQUIRE(of[1002] + of[1003] <= 8 * gib);
    if (of[1001] != 0) REQUIRE(of[1001] + rounding >= 2 * gib);
    if (of[1002] != 0) REQUIRE(of[1002] + of[1003] + rounding >= 4 * gib);
    // What is guaranteed to those who are not there is nobody's.
    const std::uint64_t kept = (of[1001] == 0 ? 2 * gib : 0) + (of[1002] + of[1003] == 0 ? 4 * gib : 0) +
                               (due.contains({1004, "0"}) ? 0 : gib);
    REQUIRE(all + kept <= card_bytes);
  }
  // What a job is due and has allocated it is granted soon, whatever others hold.
  void check_nobody_starves() {
    std::map<std::pair<std::string, JobKey>, std::pair<std::uint64_t, std::uint64_t>> jobs;  // granted, live
    for (const auto& [id, heap] : heaps) {
      auto& [granted, live] = jobs[{heap.device, heap.job}];
      granted += gpu.granted_bytes(id);
      live += heap.live;
    }
    for (const auto& [job, has] : jobs) {
      const std::uint64_t due = gpu.job_budget_bytes(job.first, job.second);
      const bool lacks = has.first + due / 16 + Arbiter::starting_bytes < std::min(due, has.second);
      unsigned& without = rounds_without[job];
      const bool asks_anew = has.second > std::exchange(live_before[job], has.second);
      without = lacks && !asks_anew && since_change[job.first] > 1 ? without + 1 : 0;
      REQUIRE(without <= Arbiter::patience_rounds + 3);
    }
  }
};

}  // namespace

TEST_CASE("NoHistoryOfHeapsTakesWhatIsGuaranteedPassesALimitOrStarvesAJob") {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    HeapHistory history(seed);
    for (unsigned i = 0; i < 5000; ++i) {
      if (i % 1300 < 25) history.change();
      history.round();
      history.check("one");
      history.check("two");
      history.check_nobody_starves();
    }
  }
}

// Whoever holds what for good, a user's guarantee is granted within two rounds of his coming.
TEST_CASE("NoHistoryOfHeapsKeepsAUserFromHisGuarantee") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    HeapHistory history(2 * seed + 1);  // nothing idle is lent
    for (unsigned i = 0; i < 200; ++i) {
      if (i % 4 == 0) history.change();
      history.round();
    }
    if (history.granted_to("one", 1001, 1001) != 0 || history.heaps_on("one") == 0) continue;
    REQUIRE_FALSE(history.gpu.join(100'000, {1001, "new"}, on("one")));
    history.gpu.observe(100'000, {0, 2 * gib});
    history.gpu.rebalance();
    history.gpu.observe(100'000, {0, 2 * gib});
    history.gpu.rebalance();
    CHECK(history.gpu.granted_bytes(100'000) + 2 * gib / 16 >= 2 * gib);
  }
}
