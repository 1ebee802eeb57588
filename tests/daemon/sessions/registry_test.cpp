// Sessions and what they were granted, without a socket.
#include "daemon/sessions/registry.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <map>
#include <vector>

#include "tests/daemon/temporary_directory.h"
#include "tests/units.h"

using namespace terrace;
using namespace terrace::daemon;

namespace {

using terrace::tests::gib, terrace::tests::mib;
const Peer user{100, 1000, 1000};

wire::Hello hello(const char* job, std::uint64_t budget, std::uint64_t pool = 0) {
  wire::Hello message = wire::make<wire::Hello>();
  wire::copy_text(message.job, sizeof message.job, job);
  message.requested_budget_bytes = budget;
  message.pool_wanted_bytes = pool;
  return message;
}

struct RegistryFixture {
  tests::TemporaryDirectory directory;
  Registry registry{8 * gib, Pools(directory.path(), 4 * gib, false), Limits{4, 3, 2}};
  Admission admit(const wire::Hello& message, const Peer& peer = user, int fd = -1) {
    return registry.admit(message, peer, look_at_pool_file(fd), 1);
  }
};

// As the job would: through a mapping of its own.
class JobSide {
 public:
  explicit JobSide(Segment& segment) : bytes_(segment.bytes()) {
    base_ =
        static_cast<std::byte*>(::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, segment.fd(), 0));
    stats = reinterpret_cast<wire::JobStats*>(base_ + segment.stats_offset());
    auto* ring = reinterpret_cast<wire::EventRing*>(base_ + segment.ring_offset());
    writer = wire::RingWriter(ring, wire::slots_of(ring), Segment::ring_capacity);
  }
  ~JobSide() { ::munmap(base_, bytes_); }
  wire::JobStats* stats;
  wire::RingWriter writer;

 private:
  std::byte* base_;
  std::uint64_t bytes_;
};

}  // namespace

TEST_CASE_METHOD(RegistryFixture, "a session gets its budget, a pool and a segment") {
  const Admission admission = admit(hello("train", 2 * gib, gib));
  REQUIRE_FALSE(admission.refusal);
  CHECK(admission.pool_fd);
  CHECK(registry.pools().capacity_bytes(admission.session->id()) == gib);
  registry.announcements();
  CHECK(registry.arbiter().granted_bytes(admission.session->id()) == 2 * gib);
  CHECK(admission.session->job().name == "train");
}

TEST_CASE_METHOD(RegistryFixture, "a refusal leaves nothing promised") {
  CHECK(admit(hello("a", 9 * gib)).refusal->error == ENOSPC);
  CHECK(admit(hello("a", gib, 5 * gib)).refusal->error == ENOSPC);
  CHECK(registry.arbiter().promised_bytes() == 0);
  CHECK(registry.pools().promised_bytes() == 0);
  CHECK(registry.sessions().empty());
}

TEST_CASE_METHOD(RegistryFixture, "users and the whole machine have bounds on processes") {
  for (int i = 0; i < 3; ++i) REQUIRE_FALSE(admit(hello("a", 0)).refusal);
  CHECK(admit(hello("a", 0)).refusal->error == EUSERS);
  REQUIRE_FALSE(admit(hello("a", 0), Peer{1, 2000, 2000}).refusal);
  CHECK(admit(hello("a", 0), Peer{1, 3000, 3000}).refusal->error == EUSERS);
}

TEST_CASE_METHOD(RegistryFixture, "jobs of the same name but other users are other jobs") {
  admit(hello("a", 5 * gib));
  CHECK(admit(hello("a", 5 * gib), Peer{1, 2000, 2000}).refusal);
  CHECK_FALSE(admit(hello("a", 5 * gib)).refusal);
}

TEST_CASE_METHOD(RegistryFixture, "a pool comes back with its job and no second one is made") {
  wire::Hello back = hello("a", gib, gib);
  back.flags = wire::hello_reattach | wire::hello_has_pool_fd;
  back.held_budget_bytes = gib;
  back.pool_capacity_bytes = 3 * gib;
  back.pool_used_bytes = 2 * gib;
  const UniqueFd pool(open_unlinked(directory.path()));
  const Admission admission = admit(back, user, pool.get());
  REQUIRE_FALSE(admission.refusal);
  CHECK_FALSE(admission.pool_fd);
  CHECK(registry.pools().promised_bytes() == 3 * gib);
  CHECK(registry.arbiter().granted_bytes(admission.session->id()) == gib);
}

TEST_CASE_METHOD(RegistryFixture,
                 "a job that is back is not taken to hold nothing before it has read its welcome") {
  wire::Hello back = hello("a", gib, gib);
  back.flags = wire::hello_reattach | wire::hello_has_pool_fd;
  back.held_budget_bytes = gib;
  back.pool_capacity_bytes = 4 * gib;
  const UniqueFd pool(open_unlinked(directory.path()));
  back.pool_used_bytes = 3 * gib;
  const SessionId first = admit(back, user, pool.get()).session->id();
  back.pool_used_bytes = 0;
  const Admission second = admit(back, user, pool.get());
  registry.take_in(1);
  registry.announcements();
  CHECK(registry.pools().limit_bytes(first) == 3 * gib + gib / 2);
  JobSide job(registry.find(first)->segment());
  job.stats->set(wire::Stat::pool_used_bytes, 2 * gib);
  job.stats->set(wire::Stat::heartbeat_ns, 1);
  registry.take_in(1);
  CHECK(registry.pools().limit_bytes(first) == 3 * gib);
}

TEST_CASE_METHOD(RegistryFixture, "a job for which too little pool is left runs with a file of its own") {
  Registry crumbs(8 * gib, Pools(directory.path(), 1 << 20, true));
  const Admission admission = crumbs.admit(hello("a", gib, wire::any_bytes), user, std::nullopt, 1);
  REQUIRE_FALSE(admission.refusal);
  CHECK_FALSE(admission.pool_fd);
  CHECK_FALSE(admission.pool_problem.empty());
  CHECK(crumbs.pools().promised_bytes() == 0);
}

TEST_CASE_METHOD(RegistryFixture, "a pool comes back only with a session") {
  wire::Hello back = hello("a", gib);
  back.flags = wire::hello_has_pool_fd;
  back.pool_capacity_bytes = gib;
  const UniqueFd pool(open_unlinked(directory.path()));
  CHECK(admit(back, user, pool.get()).refusal->error == EBADMSG);
  CHECK(registry.pools().promised_bytes() == 0);
}

TEST_CASE_METHOD(RegistryFixture, "a claim to be back gets what a greeting would, and is told so") {
  admit(hello("honest", 5 * gib, 3 * gib));
  REQUIRE(admit(hello("greedy", 4 * gib)).refusal);
  wire::Hello back = hello("greedy", 4 * gib, gib);
  back.flags = wire::hello_reattach | wire::hello_has_pool_fd;
  back.held_budget_bytes = 8 * gib;
  back.pool_capacity_bytes = std::uint64_t{1} << 62;
  const UniqueFd pool(open_unlinked(directory.path()));
  const Peer me{100, ::geteuid(), 0};  // to whom the file belongs
  REQUIRE(::fallocate(pool.get(), 0, 0, 8 << 20) == 0);
  const Admission admission = admit(back, me, pool.get());
  REQUIRE_FALSE(admission.refusal);
  CHECK(admission.was_cut);
  CHECK(registry.arbiter().granted_bytes(admission.session->id()) == 3 * gib);
  CHECK(registry.arbiter().promised_bytes() == 8 * gib);
  CHECK(registry.pools().capacity_bytes(admission.session->id()) == gib);
  CHECK(registry.pools().promised_bytes() == 4 * gib);
}

TEST_CASE_METHOD(RegistryFixture, "PoolFileOfAnotherProcessInSessionIsRefused") {
  const Admission given = admit(hello("a", gib, gib));
  wire::Hello back = hello("a", gib);
  back.flags = wire::hello_reattach | wire::hello_has_pool_fd;
  back.pool_capacity_bytes = gib;
  const Peer other{user.pid + 1, user.uid, user.gid};
  CHECK(admit(back, other, given.pool_fd.get()).refusal->error == EBUSY);
  // Who was given it may be back before its last session has ended, and has it for itself then, too.
  REQUIRE_FALSE(admit(back, user, given.pool_fd.get()).refusal);
  registry.end(given.session->id(), "gone", 2);
  CHECK(admit(back, other, given.pool_fd.get()).refusal->error == EBUSY);
  CHECK(registry.sessions().size() == 1);
  CHECK(registry.pools().promised_bytes() == gib);
}

TEST_CASE_METHOD(RegistryFixture, "a pool that is no file is refused") {
  wire::Hello back = hello("a", gib);
  back.flags = wire::hello_reattach | wire::hello_has_pool_fd;
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  CHECK(admit(back, user, reader.get()).refusal->error == EBADMSG);
  CHECK(admit(back, user, -1).refusal->error == EBADMSG);
  CHECK(registry.arbiter().promised_bytes() == 0);
}

TEST_CASE_METHOD(RegistryFixture,
                 "a job that takes whatever pool there is runs without one if there is none") {
  Registry without(8 * gib, Pools("/nonexistent", 4 * gib, true));
  const Admission admission = without.admit(hello("a", gib, wire::any_bytes), user, std::nullopt, 1);
  REQUIRE_FALSE(admission.refusal);
  CHECK_FALSE(admission.pool_fd);
  CHECK_FALSE(admission.pool_problem.empty());
  CHECK(without.pools().promised_bytes() == 0);
}

TEST_CASE_METHOD(RegistryFixture, "counters and events reach sessions, journal and totals") {
  const Admission admission = admit(hello("a", gib));
  JobSide job(admission.session->segment());
  job.stats->set(wire::Stat::faults, 5);
  job.stats->set(wire::Stat::resident_bytes, 1234);
  job.stats->set(wire::Stat::recent_drive_read_ns, 1234);
  job.writer.push(
      {.time_ns = 9, .address = 0x1000, .call_site = 7, .bytes = 4096, .kind = wire::EventKind::alloc});
  registry.take_in(1);
  CHECK(admission.session->counter(wire::Stat::faults) == 5);
  CHECK(admission.session->counter(wire::Stat::recent_drive_read_ns) == 1234);
  CHECK(admission.session->lifetimes().sites() == 1);
  const auto entries = registry.journal().after(0, 10);
  REQUIRE(entries.size() == 2);
  CHECK(entries[0]->kind == "joined");
  CHECK(entries[1]->kind == "alloc");
  CHECK(entries[1]->event.address == 0x1000);
  const JobKey key = admission.session->job();
  registry.end(admission.session->id(), "closed", 2);
  REQUIRE(registry.ended_jobs().contains(key));
  const EndedJob& ended = registry.ended_jobs().at(key);
  CHECK(ended.totals[static_cast<std::size_t>(wire::Stat::faults)] == 5);
  CHECK(ended.totals[static_cast<std::size_t>(wire::Stat::resident_bytes)] == 0);  // it holds nothing now
  CHECK(ended.totals[static_cast<std::size_t>(wire::Stat::recent_drive_read_ns)] == 0);  // and moves nothing
}

TEST_CASE_METHOD(RegistryFixture, "hostile counters change nothing for others") {
  const Admission bad = admit(hello("bad", 2 * gib));
  const Admission good = admit(hello("good", 4 * gib));
  registry.announcements();
  JobSide job(bad.session->segment());
  for (std::size_t i = 0; i < wire::stat_slots; ++i) job.stats->words[i].store(~std::uint64_t{0});
  registry.take_in(1);
  CHECK(registry.announcements().empty());
  CHECK(registry.arbiter().granted_bytes(good.session->id()) == 4 * gib);
  CHECK(registry.pools().used_bytes() == 0);
}

// Both wait for nothing else: the pool has room, and they were told of too little of it.
TEST_CASE_METHOD(RegistryFixture, "the last room of a pool is told to the sessions that can use it") {
  const std::vector<SessionId> ids{admit(hello("a", gib, gib)).session->id(),
                                   admit(hello("a", gib, gib)).session->id()};
  registry.announcements();
  std::map<SessionId, std::uint64_t> told;
  const auto hear = [&] {
    for (const Announcement& one : registry.announcements()) told[one.session] = one.pool_limit_bytes;
  };
  const auto use = [&](SessionId id, std::uint64_t bytes) {
    const JobSide job(registry.find(id)->segment());
    job.stats->set(wire::Stat::heartbeat_ns, 1);
    job.stats->set(wire::Stat::pool_used_bytes, bytes);
    registry.take_in(1);
    hear();
  };
  for (const SessionId id : ids) told[id] = registry.pools().limit_bytes(id);
  use(ids[1], 512 * mib);
  // Whatever it is told, it puts in.
  for (int round = 0; round < 16; ++round) use(ids[0], told.at(ids[0]));
  CHECK(told.at(ids[0]) >= 512 * mib - 2 * Pools::least_bytes);
  CHECK(told.at(ids[0]) <= 512 * mib);
}

TEST_CASE_METHOD(RegistryFixture, "the totals of ended jobs are bounded, the oldest goes") {
  for (const char* name : {"one", "two", "three"}) {
    const Admission admission = admit(hello(name, gib));
    registry.end(admission.session->id(), "closed", registry.sessions_seen());
  }
  CHECK(registry.ended_jobs().size() == 2);
  CHECK_FALSE(registry.ended_jobs().contains({user.uid, "one"}));
}

TEST_CASE_METHOD(RegistryFixture, "names are printable and never empty") {
  CHECK(admit(hello("", 0)).session->job().name == "unnamed");
  CHECK(admit(hello("a\x1b[31m\n", 0)).session->job().name == "a?[31m?");
  wire::Hello endless = hello("", 0);
  std::memset(endless.job, 'x', sizeof endless.job);
  CHECK(admit(endless).session->job().name == std::string(wire::name_bytes, 'x'));
}

TEST_CASE_METHOD(RegistryFixture,
                 "who keeps what he was told to give is named after a minute, and holds up nobody") {
  const SessionId greedy = admit(hello("greedy", 0)).session->id();
  registry.announcements();
  const JobSide job(registry.find(greedy)->segment());
  job.stats->set(wire::Stat::heartbeat_ns, 1);
  job.stats->set(wire::Stat::resident_bytes, 8 * gib);
  job.stats->set(wire::Stat::heap_live_bytes, 8 * gib);
  std::uint64_t now = 1;
  for (int i = 0; i < 2; ++i) {
    registry.take_in(now += Registry::round_ns);
    registry.announcements();
  }
  REQUIRE(registry.arbiter().granted_bytes(greedy) == 8 * gib);
  const SessionId other = admit(hello("other", 0), {101, 2000, 2000}).session->id();
  const auto is_named = [&] {
    const auto entries = registry.journal().after(0, Journal::capacity);
    return std::any_of(entries.begin(), entries.end(), [&](const auto* entry) {
      return entry->kind == "overdue" && entry->session == greedy;
    });
  };
  for (unsigned round = 0; round < Arbiter::patience_rounds; ++round) {
    registry.announcements();
    REQUIRE(registry.arbiter().granted_bytes(other) == Arbiter::minimum_bytes);
    REQUIRE_FALSE(is_named());
    registry.take_in(now += Registry::round_ns);
  }
  registry.take_in(now += Registry::round_ns);
  CHECK(is_named());
  registry.announcements();
  CHECK(registry.arbiter().granted_bytes(other) >= Arbiter::starting_bytes);
}

TEST_CASE("ForgedEventsOfOneUserPushOutNobodyElses") {
  Journal journal;
  for (std::uint32_t uid = 1; uid <= 2; ++uid)
    for (int i = 0; i < 100; ++i) journal.add({0, 0, 0, uid, nullptr, "joined", {}, {}, 0});
  for (std::size_t i = 0; i < 3 * Journal::capacity; ++i)
    journal.add({0, 0, 0, 9, nullptr, "alloc", {}, {}, 0});
  const auto kept = journal.after(0, Journal::capacity);
  CHECK(kept.size() == Journal::capacity);
  CHECK(std::is_sorted(kept.begin(), kept.end(),
                       [](const auto* one, const auto* other) { return one->number < other->number; }));
  CHECK(std::count_if(kept.begin(), kept.end(), [](const auto* entry) { return entry->uid != 9; }) == 200);
  for (std::uint32_t uid = 3; uid <= 4; ++uid)  // two who flood share what the others do not use
    for (std::size_t i = 0; i < Journal::capacity; ++i)
      journal.add({0, 0, 0, uid, nullptr, "free", {}, {}, 0});
  const auto after = journal.after(0, Journal::capacity);
  for (const std::uint32_t uid : {3U, 4U, 9U})
    CHECK(std::count_if(after.begin(), after.end(), [uid](const auto* entry) { return entry->uid == uid; }) >=
          static_cast<long>((Journal::capacity - 200) / 3 - 1));
}

TEST_CASE("the journal keeps the last entries under growing numbers") {
  Journal journal;
  for (std::size_t i = 0; i < Journal::capacity + 10; ++i)
    journal.add({0, 0, 0, 0, nullptr, "log", {}, {}, 0});
  CHECK(journal.last_number() == Journal::capacity + 10);
  CHECK(journal.after(0, 1'000'000).size() == Journal::capacity);
  CHECK(journal.after(0, 1'000'000).front()->number == 11);
  CHECK(journal.after(journal.last_number() - 2, 100).size() == 2);
  CHECK(journal.after(0, 5).size() == 5);
  CHECK(journal.after(journal.last_number(), 5).empty());
}

TEST_CASE_METHOD(RegistryFixture, "what is on record is given back, what is only claimed as if it were new") {
  registry.expect(Claims({{{1000, "known"}, {2 * gib, gib, gib}}}), 10 * Registry::round_ns);
  wire::Hello back = hello("known", 4 * gib);
  back.flags = wire::hello_reattach;
  back.held_budget_bytes = 4 * gib;
  CHECK(registry.is_expected(back, 1000));
  CHECK_FALSE(registry.is_expected(back, 2000));
  CHECK_FALSE(registry.is_expected(hello("known", gib), 1000));  // it does not say that it is back
  const Admission known = admit(back);
  CHECK(known.was_cut);
  CHECK(registry.arbiter().promised_bytes() == 2 * gib);
  CHECK(registry.arbiter().granted_bytes(known.session->id()) == gib);
  wire::copy_text(back.job, sizeof back.job, "unknown");
  const Admission unknown = admit(back, {101, 2000, 2000});
  CHECK_FALSE(unknown.is_expected);
  CHECK(registry.arbiter().granted_bytes(unknown.session->id()) == 0);  // it gets what is free by then
  back.requested_budget_bytes = 8 * gib;
  wire::copy_text(back.job, sizeof back.job, "too much");
  CHECK(admit(back, {102, 3000, 3000}).was_cut);
  CHECK(registry.arbiter().promised_bytes() == 8 * gib);
}

TEST_CASE_METHOD(RegistryFixture, "what is on record waits for its jobs for a while") {
  const Promises on_record{{{1000, "gone"}, {2 * gib, gib, gib}}};
  registry.expect(Claims(on_record), 10 * Registry::round_ns);
  registry.take_in(Registry::round_ns);
  CHECK(registry.promises() == on_record);
  admit(hello("here", gib, gib / 2));
  registry.announcements();
  CHECK(registry.promises().at({1000, "here"}) == Promise{gib, gib, gib / 2});
  CHECK(registry.promises().size() == 2);
  REQUIRE_FALSE(registry.change_arbiter().pause({1000, "here"}, true));
  CHECK(registry.promises().at({1000, "here"}) == Promise{0, 0, 0, {}, 0, true});  // others may have it
  REQUIRE_FALSE(registry.change_arbiter().resume({1000, "here"}, Arbiter::By::owner));
  registry.take_in(10 * Registry::round_ns);
  CHECK(registry.promises().size() == 1);
}

// Whoever joins under the job's name, and whether or not he says that he is back.
TEST_CASE_METHOD(RegistryFixture, "WhatAJobMayHaveOutlivesTheDaemon") {
  admit(hello("limited", 3 * gib));
  admit(hello("paused", gib));
  const JobKey limited{1000, "limited"}, paused{1000, "paused"};
  Arbiter& arbiter = registry.change_arbiter();
  REQUIRE_FALSE(arbiter.set_job_limit(limited, 2 * gib, Arbiter::By::administrator));
  REQUIRE_FALSE(arbiter.set_job_weight(limited, 7));
  REQUIRE_FALSE(arbiter.set_job_limit(paused, 2 * gib, Arbiter::By::owner));
  REQUIRE_FALSE(arbiter.pause(paused, true));
  const Promises left = registry.promises();

  RegistryFixture later;
  later.registry.expect(Claims(left), 10 * Registry::round_ns);
  wire::Hello back = hello("limited", 3 * gib);
  back.flags |= GENERATE(std::uint16_t{0}, wire::hello_reattach);
  later.admit(back);
  CHECK(later.registry.arbiter().job_limit(limited) ==
        Arbiter::JobLimit{2 * gib, Arbiter::By::administrator});
  CHECK(later.registry.arbiter().job_weight(limited) == 7);
  CHECK(later.registry.arbiter().job_budget_bytes(limited) == 2 * gib);
  later.admit(hello("paused", gib));
  CHECK(later.registry.arbiter().job_limit(paused).bytes == 2 * gib);
}

// The next daemon may have other rules.
TEST_CASE_METHOD(RegistryFixture, "WhatTheSettingsSayOfANameIsNotOnRecord") {
  JobShares jobs;
  jobs.add({1000}, "a*", {.weight = 5, .limit_bytes = 2 * gib});
  UserShares users;
  users.set_jobs(jobs);
  registry.change_arbiter().set_users(users);
  admit(hello("ada", gib));
  wire::Hello weighed = hello("anna", gib);
  weighed.weight = 3;
  admit(weighed);
  CHECK(registry.arbiter().job_weight({1000, "ada"}) == 5);
  CHECK(registry.arbiter().job_weight({1000, "anna"}) == 3);
  const Promises left = registry.promises();
  CHECK(left.at({1000, "ada"}).weight == 0);
  CHECK(left.at({1000, "ada"}).limit.bytes == no_limit);
  CHECK(left.at({1000, "anna"}).weight == 3);
}
