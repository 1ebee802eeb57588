// Jobs that report what is not so, with processes that really hold memory and files that really take up disk.
#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>

#include "daemon/sessions/registry.h"
#include "tests/daemon/sessions/holding_process.h"
#include "tests/daemon/temporary_directory.h"
#include "tests/units.h"

using namespace terrace;
using namespace terrace::daemon;
using namespace terrace::tests;

namespace {

wire::Hello greeting_of(const char* job) {
  wire::Hello message = wire::make<wire::Hello>();
  wire::copy_text(message.job, sizeof message.job, job);
  return message;
}

// A process that holds 640 MiB of a machine's 768 has all of it lent, and one of another user has just
// joined.
struct Reports {
  static constexpr std::uint64_t machine = 768 * mib, held = 640 * mib;
  TemporaryDirectory directory;
  Registry registry{machine, Pools(directory.path(), gib, false)};
  HoldingProcess process{held};
  std::uint64_t now = 1;
  wire::JobStats* stats = nullptr;
  SessionId first = 0, other = 0;

  Reports() {
    Session& session =
        *registry.admit(greeting_of("first"), {process.pid(), 1000, 1000}, std::nullopt, now).session;
    session.watch(ProcessMemory(process.pid(), process.fd()));
    first = session.id();
    stats = begin_to_report(session);
  }
  // As a process that would use more than there is.
  static wire::JobStats* begin_to_report(Session& session) {
    Segment& segment = session.segment();
    void* base = ::mmap(nullptr, segment.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, segment.fd(), 0);
    auto* reports = reinterpret_cast<wire::JobStats*>(static_cast<std::byte*>(base) + segment.stats_offset());
    reports->set(wire::Stat::heartbeat_ns, 1);
    reports->set(wire::Stat::heap_live_bytes, gib);
    return reports;
  }
  void report(std::uint64_t resident) const { stats->set(wire::Stat::resident_bytes, resident); }
  void pass_rounds(unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      registry.take_in(now += Registry::round_ns);
      registry.announcements();
    }
  }
  void let_another_join() {
    Session& session = *registry.admit(greeting_of("other"), {1, 2000, 2000}, std::nullopt, now).session;
    other = session.id();
    begin_to_report(session);
    registry.announcements();
  }
  std::uint64_t granted(SessionId session) const { return registry.arbiter().granted_bytes(session); }
  long named(const char* kind) const {
    const auto entries = registry.journal().after(0, Journal::capacity);
    return std::count_if(entries.begin(), entries.end(),
                         [&](const auto* entry) { return entry->kind == kind && entry->session == first; });
  }
};

}  // namespace

TEST_CASE_METHOD(Reports, "ReportedMemoryThatTheKernelStillCountsIsNotFree") {
  report(held);
  pass_rounds(30);
  REQUIRE(granted(first) == machine);
  let_another_join();
  report(0);  // and it holds all of it
  pass_rounds(Arbiter::patience_rounds - 1);
  CHECK(granted(other) <= machine - held);
  CHECK(named("understated") == 0);
  pass_rounds(3);
  CHECK(named("understated") == 1);
  CHECK(named("overdue") == 0);
  CHECK(granted(first) == Arbiter::starting_bytes);
  pass_rounds(2 * Arbiter::patience_rounds);
  CHECK(named("understated") == 1);
  CHECK(granted(other) == machine / 2);  // it is not starved
  process.give();
  pass_rounds(20);
  CHECK(granted(first) == machine / 2);
}

TEST_CASE_METHOD(Reports, "WhoNeverReportsAnythingIsCountedByTheKernelsFigure") {
  report(0);
  pass_rounds(30);
  CHECK(registry.find(first)->resident_bytes() >= held);
  let_another_join();
  pass_rounds(100);
  CHECK(granted(other) <= machine - held);
}

TEST_CASE_METHOD(Reports, "a process that gives is not waited for, and not named") {
  report(held);
  pass_rounds(30);
  let_another_join();
  pass_rounds(5);
  CHECK(granted(other) < machine / 2);
  process.give();
  report(0);
  pass_rounds(3);
  CHECK(granted(other) == machine / 2);
  pass_rounds(2 * Arbiter::patience_rounds);
  CHECK(named("understated") + named("overdue") == 0);
  CHECK(granted(first) == machine / 2);
}

TEST_CASE_METHOD(Reports,
                 "a pool file that takes up more than it may is named once, and others are promised less") {
  wire::Hello hello = greeting_of("full");
  hello.pool_wanted_bytes = 512 * mib;
  const Admission admission = registry.admit(hello, {1, 1000, 1000}, std::nullopt, now);
  first = admission.session->id();
  REQUIRE(::fallocate(admission.pool_fd.get(), 0, 0, 768 << 20) == 0);
  pass_rounds(50);
  CHECK(registry.pools().used_bytes() >= 768 * mib);
  CHECK(registry.pools().reported_bytes() == 0);
  CHECK(registry.pools().limit_bytes(first) == 512 * mib);
  CHECK(named("overfull") == 1);
  hello = greeting_of("late");
  hello.pool_wanted_bytes = 400 * mib;
  CHECK(registry.admit(hello, {2, 2000, 2000}, std::nullopt, now).refusal->error == ENOSPC);
  registry.end(first, "gone", now);
  CHECK(registry.pools().used_bytes() == 0);
}

namespace {

// The pager's session of the process says 320 MiB, its engine's the rest.
struct BesideAnEngine : Reports {
  SessionId engine = 0;
  wire::JobStats* engine_stats = nullptr;

  BesideAnEngine() {
    wire::Hello hello = greeting_of("first");
    hello.flags = wire::hello_is_engine;
    wire::copy_text(hello.program, sizeof hello.program, "cuda:0");
    Session& session = *registry.admit(hello, {process.pid(), 1000, 1000}, std::nullopt, now).session;
    session.watch(ProcessMemory(process.pid(), process.fd()));
    engine = session.id();
    engine_stats = begin_to_report(session);
    report(320 * mib);
    engine_stats->set(wire::Stat::resident_bytes, 320 * mib);
    pass_rounds(30);
  }
};

}  // namespace

TEST_CASE_METHOD(BesideAnEngine,
                 "a pager and an engine of one process together have what the kernel counts") {
  const std::uint64_t kernel_bytes = ProcessMemory(process.pid(), process.fd()).resident_bytes().value_or(0);
  if (kernel_bytes > held + 64 * mib) {
    std::printf("SKIP: a process of this build has %lu MiB beside what it asked for, which no report names\n",
                static_cast<unsigned long>((kernel_bytes - held) / mib));
    return;
  }
  CHECK(registry.find(engine)->device == "cuda:0");
  CHECK(registry.find(first)->device.empty());
  let_another_join();
  pass_rounds(30);
  CHECK(registry.find(first)->resident_bytes() == 320 * mib);
  CHECK(registry.find(engine)->resident_bytes() == 320 * mib);
  report(0);  // and it gave nothing
  pass_rounds(30);
  CHECK(registry.find(first)->resident_bytes() >= 320 * mib);
  CHECK(registry.find(first)->resident_bytes() < 400 * mib);  // the engine's is not its
  CHECK(registry.find(engine)->resident_bytes() == 320 * mib);
}

TEST_CASE_METHOD(BesideAnEngine,
                 "an engine that reports more than it was granted hides nothing of its pager's") {
  let_another_join();
  engine_stats->set(wire::Stat::resident_bytes, gib);
  report(0);
  pass_rounds(30);
  const std::uint64_t engine_has = registry.arbiter().held_bytes(engine);
  CHECK(engine_has < gib);
  CHECK(registry.find(first)->resident_bytes() + engine_has >= held);
}
