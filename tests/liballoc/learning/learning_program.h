// A program whose births, deaths and uses the test knows, with real pages, and who keeps what the learner
// sends of it: probed runs are moved, and the program's own threads fault on them.
#pragma once

#define XXH_INLINE_ALL
#include <fcntl.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "liballoc/wire/period/period.h"
#include "tests/liballoc/paging/pager_fixture.h"

namespace terrace::liballoc::test {

inline constexpr std::size_t layers = 12;
inline constexpr std::size_t weights = 3;
inline constexpr std::uint32_t events_of_step = 6 * layers;

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
  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      offer();
      step();
    }
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
inline std::optional<std::uint32_t> turn_of(const KeepingSink& sink) {
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

inline std::set<std::uint32_t> uses_of(const KeepingSink& sink, const wire::PeriodObject& o,
                                       std::uint32_t turn) {
  std::set<std::uint32_t> all;
  for (std::uint32_t i = 0; i < o.uses; ++i)
    all.insert((sink.uses()[o.first_use + i].interval + events_of_step - turn) % events_of_step);
  return all;
}

inline bool is_sound(const KeepingSink& sink) {
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

inline std::size_t probed_runs(const PagerFixture& f) { return f.pager.runs().lists().probed.size(); }

}  // namespace terrace::liballoc::test
