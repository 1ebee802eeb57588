// What the learner finds of a program whose births, deaths and uses the test knows, with real pages: probed
// runs are moved, and the program's own threads fault on them.
#define XXH_INLINE_ALL
#include <fcntl.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "liballoc/wire/period/period.h"
#include "tests/liballoc/pager_fixture.h"

namespace terrace::liballoc {
namespace {

using namespace test;

constexpr std::size_t layers = 12;
constexpr std::size_t weights = 3;
constexpr std::uint32_t events_of_step = 6 * layers;

// Takes images and keeps them, mapped.
class KeepingSink final : public PeriodSink {
 public:
  ~KeepingSink() { forget(); }
  bool wants_periods() const override { return wants; }
  const char* policy() const override { return "g10"; }
  int send(const LearnedPeriod& period) override {
    ++asked;
    if (answer != 0) return answer;
    forget();
    seals = ::fcntl(period.fd, F_GET_SEALS);
    bytes = period.image_bytes;
    memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, period.fd, 0);
    ++taken;
    last = period;
    return 0;
  }
  const wire::PeriodHeader& header() const { return *static_cast<const wire::PeriodHeader*>(memory); }
  template <class T>
  const T* behind(std::size_t offset) const {
    return reinterpret_cast<const T*>(static_cast<const std::byte*>(memory) + offset);
  }
  const wire::PeriodEvent* events() const { return behind<wire::PeriodEvent>(sizeof(wire::PeriodHeader)); }
  const wire::PeriodObject* objects() const {
    return behind<wire::PeriodObject>(sizeof(wire::PeriodHeader) +
                                      header().events * sizeof(wire::PeriodEvent));
  }
  const wire::PeriodUse* uses() const {
    return reinterpret_cast<const wire::PeriodUse*>(objects() + header().objects);
  }

  bool wants = true;
  int answer = 0;
  int asked = 0, taken = 0;
  int seals = 0;
  LearnedPeriod last;

 private:
  void forget() {
    if (memory != nullptr && memory != MAP_FAILED) ::munmap(memory, bytes);
    memory = nullptr;
  }
  void* memory = nullptr;
  std::size_t bytes = 0;
};

struct Truth {
  std::uint64_t bytes = 0;
  std::uint32_t birth = 0, death = 0;
  std::set<std::uint32_t> uses;  // intervals, without its birth's
};

// Forward through twelve layers, whose outputs stay, and back through them, where each is touched once more,
// with one of three weights.
struct Program {
  explicit Program(PagerFixture& pager_fixture) : f(pager_fixture) {
    for (std::size_t i = 0; i < weights; ++i) kept.push_back(f.allocate_filled(2 * run_bytes, 100 + i));
  }

  static std::size_t bytes_of(std::size_t layer) { return (1 + layer % 3) * run_bytes; }

  void step() {
    std::vector<std::byte*> outputs;
    event_ = 0;
    for (std::size_t i = 0; i < layers; ++i) {
      std::byte* const output = allocate(bytes_of(i));
      touch(output, bytes_of(i), i);
      outputs.push_back(output);
      some_scratch();
    }
    if (in_the_middle) in_the_middle(outputs);
    for (std::size_t i = layers; i-- > 0;) {
      wrong += f.reads(outputs[i], i, bytes_of(i)) ? 0 : 1;
      wrong += f.reads(kept[i % weights], 100 + i % weights, 2 * run_bytes) ? 0 : 1;
      std::byte* const gradient = allocate(3 * run_bytes / 2);
      touch(gradient, run_bytes, 50);
      release(gradient);
      release(outputs[i]);
    }
  }
  void offer() {
    now += 2'000'000'000;
    f.pager.learner().offer(sink, now);
  }
  // Until a whole image was sent; the steps that it took.
  int learn(int most) {
    int steps = 0;
    for (; steps < most && sink.taken == 0; ++steps) {
      offer();
      step();
    }
    offer();
    return steps;
  }

  // Births, deaths and uses as the program makes them, from its own first event on.
  static std::vector<Truth> outputs() {
    std::vector<Truth> all;
    for (std::uint32_t i = 0; i < layers; ++i) {
      const auto back = static_cast<std::uint32_t>(3 * layers + 3 * (layers - 1 - i));
      all.push_back({bytes_of(i), 3 * i, back + 2, {back - 1}});
    }
    return all;
  }
  static std::set<std::uint32_t> uses_of_weight(std::size_t n) {
    std::set<std::uint32_t> all;
    for (std::uint32_t i = 0; i < layers; ++i)
      if (i % weights == n) all.insert(static_cast<std::uint32_t>(3 * layers + 3 * (layers - 1 - i)) - 1);
    return all;
  }

  PagerFixture& f;
  KeepingSink sink;
  std::vector<std::byte*> kept;
  std::function<void(const std::vector<std::byte*>&)> in_the_middle;
  std::size_t wrong = 0;
  std::uint64_t now = 1;
  std::uint64_t pause_ns = 0;  // computing of each interval

 private:
  std::byte* allocate(std::size_t bytes) {
    std::byte* const block = f.allocate(bytes);
    after_event();
    return block;
  }
  void release(std::byte* block) {
    f.release(block);
    after_event();
  }
  void some_scratch() { release(allocate(300 * kib)); }
  void touch(std::byte* block, std::size_t bytes, std::uint64_t seed) { f.write(block, seed, bytes); }
  // An agent that is quick.
  void after_event() {
    ++event_;
    f.pump();
    if (pause_ns == 0) return;
    const timespec pause{0, static_cast<long>(pause_ns)};
    nanosleep(&pause, nullptr);
  }

  std::uint32_t event_ = 0;
};

struct Learning : Dram, PagerFixture {
  explicit Learning(std::size_t runs = 64, MoverKind kind = any_kind())
      : PagerFixture(kind, dram, runs, 1024 * mib, Compression::off) {
    if (ready()) pager.learner().let_probe(100, 100);
  }
};

// By how much the period is turned against the program's own first event, so that all of its outputs are in
// the image with their births, deaths and bytes.
std::optional<std::uint32_t> turn_of(const KeepingSink& sink) {
  const std::vector<Truth> truth = Program::outputs();
  for (std::uint32_t turn = 0; turn < events_of_step; ++turn) {
    const bool fits = std::all_of(truth.begin(), truth.end(), [&](const Truth& t) {
      return std::any_of(sink.objects(), sink.objects() + sink.header().objects,
                         [&](const wire::PeriodObject& o) {
                           return o.birth == (t.birth + turn) % events_of_step &&
                                  o.death == (t.death + turn) % events_of_step && o.bytes == t.bytes;
                         });
    });
    if (fits) return turn;
  }
  return std::nullopt;
}

std::set<std::uint32_t> uses_of(const KeepingSink& sink, const wire::PeriodObject& o, std::uint32_t turn) {
  std::set<std::uint32_t> all;
  for (std::uint32_t i = 0; i < o.uses; ++i)
    all.insert((sink.uses()[o.first_use + i].interval + events_of_step - turn) % events_of_step);
  return all;
}

bool is_sound(const KeepingSink& sink) {
  const wire::PeriodHeader& h = sink.header();
  const std::size_t bytes = sizeof(wire::PeriodHeader) + h.events * sizeof(wire::PeriodEvent) +
                            h.objects * sizeof(wire::PeriodObject) + h.uses * sizeof(wire::PeriodUse);
  const auto* const at = sink.behind<std::byte>(0);
  const bool is_sorted = std::is_sorted(sink.objects(), sink.objects() + h.objects,
                                        [](const wire::PeriodObject& a, const wire::PeriodObject& b) {
                                          return a.birth != b.birth ? a.birth < b.birth : a.place < b.place;
                                        });
  return h.magic == wire::period_magic && h.version == wire::period_version && h.image_bytes == bytes &&
         h.header_bytes == sizeof(wire::PeriodHeader) && is_sorted &&
         h.checksum == XXH3_64bits(at + wire::period_checksum_end, bytes - wire::period_checksum_end);
}

std::size_t probed_runs(const PagerFixture& f) { return f.pager.runs().lists().probed.size(); }

}  // namespace

TEST_CASE("The uses that are found are the uses that are made") {
  Learning f;
  if (!f.ready()) return;
  INFO(f.mover.name());
  Program program(f);
  const int steps = program.learn(40);
  INFO("steps: " << steps);
  REQUIRE(program.sink.taken == 1);
  CHECK(program.wrong == 0);
  REQUIRE(is_sound(program.sink));
  CHECK(program.sink.seals == (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
  const wire::PeriodHeader& h = program.sink.header();
  CHECK(h.events == events_of_step);
  CHECK(h.period_hash == program.sink.last.hash);
  CHECK(h.budget_bytes == f.pager.budget().bytes());
  const std::optional<std::uint32_t> turn = turn_of(program.sink);
  REQUIRE(turn.has_value());

  std::size_t persistent = 0;
  for (const wire::PeriodObject* o = program.sink.objects(); o != program.sink.objects() + h.objects; ++o) {
    const std::set<std::uint32_t> found = uses_of(program.sink, *o, *turn);
    if (o->birth == wire::persistent) {
      CHECK(o->bytes == 2 * run_bytes);
      CHECK(o->death == wire::never);
      const bool is_one = found == Program::uses_of_weight(0) || found == Program::uses_of_weight(1) ||
                          found == Program::uses_of_weight(2);
      CHECK(is_one);
      ++persistent;
      continue;
    }
    const std::uint32_t birth = (o->birth + events_of_step - *turn) % events_of_step;
    for (const Truth& t : Program::outputs()) {
      if (t.birth != birth) continue;
      std::set<std::uint32_t> expected = t.uses;
      expected.insert(birth);
      CHECK(found == expected);
    }
  }
  CHECK(persistent == weights);
  f.check();
}

TEST_CASE("Nothing is probed while nobody plans and all is put back when nobody does any more") {
  Learning f;
  if (!f.ready()) return;
  Program program(f);
  program.sink.wants = false;
  for (int i = 0; i < 8; ++i) {
    program.offer();
    program.step();
  }
  CHECK(f.statistics().probes == 0);
  program.sink.wants = true;
  std::size_t probed = 0;
  program.in_the_middle = [&](const auto&) { probed += probed_runs(f); };
  for (int i = 0; i < 8; ++i) {
    program.offer();
    program.step();
  }
  CHECK(f.statistics().probes > 0);
  CHECK(probed > 0);
  program.in_the_middle = [&](const auto&) {
    REQUIRE(probed_runs(f) > 0);
    program.sink.wants = false;
    program.offer();
    CHECK(probed_runs(f) == 0);
    f.check();
  };
  program.step();
  program.in_the_middle = nullptr;
  const std::uint64_t probes = f.statistics().probes;
  for (int i = 0; i < 4; ++i) program.step();
  CHECK(f.statistics().probes == probes);
  CHECK(program.wrong == 0);
}

TEST_CASE("Probing takes the share of a period that it may") {
  Learning f;
  if (!f.ready()) return;
  f.pager.learner().let_probe(1, 1);
  Program program(f);
  program.pause_ns = 200'000;
  // From the first period on, where most is to be found out.
  const terrace_statistics before = f.statistics();
  for (int i = 0; i < 16; ++i) {
    program.offer();
    program.step();
  }
  const terrace_statistics after = f.statistics();
  REQUIRE(after.steps > before.steps);
  CHECK(after.probes > before.probes);
  // The last probe of a period is begun within the time, and those that are out come back after it.
  const std::uint64_t a_probe_ns = (after.probe_ns - before.probe_ns) / (after.probes - before.probes);
  CHECK(after.probe_ns - before.probe_ns <=
        (after.steps_ns - before.steps_ns) / 100 + 8 * a_probe_ns * (after.steps - before.steps));
  CHECK(program.wrong == 0);
}

TEST_CASE("Nothing is probed without a share of the period") {
  Learning f;
  if (!f.ready()) return;
  f.pager.learner().let_probe(0, 0);
  Program program(f);
  for (int i = 0; i < 8; ++i) {
    program.offer();
    program.step();
  }
  REQUIRE(f.statistics().steps > 0);
  CHECK(f.statistics().probes == 0);
  f.pager.learner().let_probe(100, 100);
  for (int i = 0; i < 4; ++i) {
    program.offer();
    program.step();
  }
  CHECK(f.statistics().probes > 0);
  CHECK(program.wrong == 0);
}

TEST_CASE("A probe writes nothing and counts as no eviction") {
  Learning f(128);
  if (!f.ready()) return;
  Program program(f);
  program.learn(40);
  const terrace_statistics s = f.statistics();
  CHECK(s.probes > 0);
  CHECK(s.evictions == 0);
  CHECK(s.written_bytes == 0);
  CHECK(s.resident_bytes <= s.budget_bytes);
  CHECK(f.pager.extents().used_bytes() == 0);
}

TEST_CASE("A plan is asked for again when the budget is another and not before") {
  Learning f;
  if (!f.ready()) return;
  Program program(f);
  program.learn(40);
  REQUIRE(program.sink.taken == 1);
  for (int i = 0; i < 12; ++i) {  // until what is learned has settled
    program.step();
    program.offer();
  }
  const int settled = program.sink.taken;
  for (int i = 0; i < 3; ++i) {
    program.step();
    program.offer();
  }
  CHECK(program.sink.taken == settled);
  f.pager.set_budget(60 * run_bytes);
  program.step();
  program.offer();
  CHECK(program.sink.taken == settled + 1);
  CHECK(program.sink.header().budget_bytes == f.pager.budget().bytes());
}

TEST_CASE("A daemon that does not read now is asked again with the same image") {
  Learning f;
  if (!f.ready()) return;
  Program program(f);
  program.sink.answer = EAGAIN;
  for (int i = 0; i < 40 && program.sink.asked == 0; ++i) {
    program.step();
    program.offer();
  }
  REQUIRE(program.sink.asked == 1);
  program.sink.answer = 0;
  program.offer();
  CHECK(program.sink.taken == 1);
  CHECK(is_sound(program.sink));
}

TEST_CASE("Images are a second apart") {
  Learning f;
  if (!f.ready()) return;
  Program program(f);
  program.learn(40);
  REQUIRE(program.sink.taken == 1);
  f.pager.set_budget(60 * run_bytes);
  program.step();
  program.offer();
  REQUIRE(program.sink.taken == 2);
  f.pager.set_budget(50 * run_bytes);
  program.step();
  f.pager.learner().offer(program.sink, program.now + 900'000'000);
  CHECK(program.sink.taken == 2);
  f.pager.learner().offer(program.sink, program.now + 1'100'000'000);
  CHECK(program.sink.taken == 3);
}

TEST_CASE("A probed run is right after a fork") {
  Learning f;
  if (!f.ready()) return;
  Program program(f);
  bool has_forked = false;
  program.in_the_middle = [&](const std::vector<std::byte*>& outputs) {
    if (probed_runs(f) == 0 || has_forked) return;
    has_forked = true;
    f.pager.forking().prepare(1'000'000);
    f.pager.forking().seal();
    CHECK(probed_runs(f) == 0);
    CHECK(in_child([&] {
            for (std::size_t i = 0; i < layers; ++i)
              if (!holds(outputs[i], i, Program::bytes_of(i))) return 1;
            return 0;
          }) == 0);
    f.pager.forking().after_in_parent(true);
    f.check();
  };
  for (int i = 0; i < 10; ++i) {
    program.offer();
    program.step();
  }
  CHECK(has_forked);
  CHECK(program.wrong == 0);
}

TEST_CASE("A probed run that the program drops reads as zeroes") {
  Learning f;
  if (!f.ready()) return;
  Program program(f);
  bool has_dropped = false;
  program.in_the_middle = [&](const std::vector<std::byte*>& outputs) {
    for (std::size_t i = 0; i < layers && !has_dropped; ++i) {
      const std::uint32_t n = f.run_of(outputs[i]);
      if (!f.pager.run(n).probed) continue;
      has_dropped = true;
      // Half of it, as MADV_DONTNEED leaves it, and then all.
      std::byte* const begin = f.pager.runs().address(n);
      os::advise(begin, run_bytes / 2, MADV_DONTNEED);
      f.pager.forget(begin, begin + run_bytes / 2);
      f.check();
      CHECK(f.reads_zero(begin, run_bytes / 2));
      const bool is_first_run = begin == outputs[i];
      std::atomic<bool> is_right{false};
      f.with([&] {
        bool right = true;
        const auto* words = reinterpret_cast<const std::uint64_t*>(begin);
        const std::size_t offset = (begin - outputs[i]) / sizeof(std::uint64_t);
        for (std::size_t w = run_bytes / 16; w < run_bytes / 8; ++w)
          right &= words[w] == word_of(i, offset + w);
        is_right = right;
      });
      CHECK(is_right);
      CHECK(is_first_run);
      f.write(outputs[i], i, Program::bytes_of(i));
    }
    for (std::size_t i = 0; i < layers; ++i) {
      const std::uint32_t n = f.run_of(outputs[i]);
      if (!f.pager.run(n).probed) continue;
      std::byte* const begin = f.pager.runs().address(n);
      os::advise(begin, run_bytes, MADV_DONTNEED);
      f.pager.forget(begin, begin + run_bytes);
      f.check();
      CHECK(f.reads_zero(begin, run_bytes));
      f.write(outputs[i], i, Program::bytes_of(i));
      break;
    }
  };
  for (int i = 0; i < 10; ++i) {
    program.offer();
    program.step();
  }
  CHECK(has_dropped);
  CHECK(program.wrong == 0);
}

TEST_CASE("A probed run may be advised away and freed") {
  Learning f;
  if (!f.ready()) return;
  Program program(f);
  bool has_left = false;
  program.in_the_middle = [&](const std::vector<std::byte*>& outputs) {
    for (std::size_t i = 0; i < layers && !has_left; ++i) {
      const std::uint32_t n = f.run_of(outputs[i]);
      if (!f.pager.run(n).probed) continue;
      has_left = true;
      f.page_out(outputs[i], Program::bytes_of(i));
      CHECK(f.state(outputs[i]) == RunState::stored);
      CHECK_FALSE(f.pager.run(n).probed);
    }
  };
  for (int i = 0; i < 10; ++i) {
    program.offer();
    program.step();
  }
  CHECK(has_left);
  CHECK(program.wrong == 0);
}

TEST_CASE("A probed run may be freed") {
  Learning f;
  if (!f.ready()) return;
  Program program(f);
  std::size_t freed = 0;
  program.in_the_middle = [&](const std::vector<std::byte*>&) {
    for (std::size_t i = 0; i < weights; ++i) {
      if (!f.pager.run(f.run_of(program.kept[i])).probed) continue;
      ++freed;
      f.release(program.kept[i]);
      f.check();
      program.kept[i] = f.allocate_filled(2 * run_bytes, 100 + i);
    }
  };
  for (int i = 0; i < 10; ++i) {
    program.offer();
    program.step();
  }
  CHECK(freed > 0);
  CHECK(program.wrong == 0);
  f.check();
}

TEST_CASE("What is probed gives way when memory is short") {
  Learning f;
  if (!f.ready()) return;
  Program program(f);
  bool was_short = false;
  program.in_the_middle = [&](const std::vector<std::byte*>&) {
    if (probed_runs(f) == 0 || was_short) return;
    was_short = true;
    // More than the budget, so that all has to leave in turn.
    const std::vector<std::byte*> more = allocate_blocks(f, 30);
    fill_blocks(f, more);
    CHECK(wrong_blocks(f, more) == 0);
    CHECK(f.pager.budget().backed_bytes() <= f.asked_budget());
    for (std::byte* const block : more) f.release(block);
  };
  for (int i = 0; i < 10; ++i) {
    program.offer();
    program.step();
  }
  CHECK(was_short);
  CHECK(program.wrong == 0);
  f.check();
}

TEST_CASE("A job that pages learns from its faults as well") {
  Learning f(16);
  if (!f.ready()) return;
  Program program(f);
  program.learn(40);
  REQUIRE(program.sink.taken > 0);
  for (int i = 0; i < 15; ++i) {
    program.step();
    program.offer();
  }
  CHECK(program.wrong == 0);
  const std::optional<std::uint32_t> turn = turn_of(program.sink);
  REQUIRE(turn.has_value());
  const wire::PeriodHeader& h = program.sink.header();
  std::size_t found = 0, made = 0;
  for (const wire::PeriodObject* o = program.sink.objects(); o != program.sink.objects() + h.objects; ++o) {
    for (const Truth& t : Program::outputs()) {
      if (t.birth != (o->birth + events_of_step - *turn) % events_of_step) continue;
      const std::set<std::uint32_t> seen = uses_of(program.sink, *o, *turn);
      made += t.uses.size();
      for (const std::uint32_t use : t.uses) found += seen.count(use);
    }
  }
  CHECK(made == layers);
  CHECK(found >= made - 1);
  CHECK(h.write_bytes_per_second > 0);
  f.check();
}

TEST_CASE("Computing times are those between two events without waits") {
  Learning f;
  if (!f.ready()) return;
  Program program(f);
  program.pause_ns = 500'000;
  program.learn(30);
  REQUIRE(program.sink.taken == 1);
  const wire::PeriodHeader& h = program.sink.header();
  std::uint64_t sum = 0;
  for (std::uint32_t k = 0; k < h.events; ++k) {
    CHECK(program.sink.events()[k].ns >= program.pause_ns * 9 / 10);
    sum += program.sink.events()[k].ns;
  }
  CHECK(sum <= h.step_ns + h.step_ns / 10);
  CHECK(h.waited_ns <= h.step_ns);
}

TEST_CASE("Who leaves a phase has its runs back and its phase is known when it returns") {
  Learning f;
  if (!f.ready()) return;
  Program program(f);
  program.learn(40);
  REQUIRE(program.sink.taken == 1);
  const LearnedPeriod first = program.sink.last;
  std::uint64_t state = 1;
  std::vector<std::byte*> held;
  for (int i = 0; i < 150; ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    held.push_back(f.allocate(256 * kib + (state >> 54) * kib));
    f.pump();
    if (held.size() < 20) continue;
    f.release(held.front());
    held.erase(held.begin());
  }
  CHECK(f.pager.learner().table() == nullptr);
  CHECK(probed_runs(f) == 0);
  for (std::byte* const block : held) f.release(block);
  f.check();
  f.pager.set_budget(60 * run_bytes);
  for (int i = 0; i < 6 && program.sink.taken < 2; ++i) {
    program.step();
    program.offer();
  }
  REQUIRE(program.sink.taken == 2);
  CHECK(program.sink.last.phase == first.phase);
  CHECK(program.sink.last.hash == first.hash);
}

TEST_CASE("A program without a period is not probed") {
  Learning f;
  if (!f.ready()) return;
  KeepingSink sink;
  std::uint64_t state = 1, now = 1;
  std::vector<std::byte*> held;
  for (int i = 0; i < 600; ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    held.push_back(f.allocate(256 * kib + (state >> 54) * 4 * kib));
    f.pump();
    f.pager.learner().offer(sink, now += 2'000'000'000);
    if (held.size() < 10) continue;
    const std::size_t at = (state >> 33) % held.size();
    f.release(held[at]);
    held.erase(held.begin() + static_cast<long>(at));
  }
  CHECK(f.statistics().probes == 0);
  CHECK(sink.asked == 0);
}

}  // namespace terrace::liballoc
