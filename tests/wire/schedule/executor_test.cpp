#include "liballoc/wire/schedule/executor.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <random>

#include "tests/wire/schedule/executor_model.h"

namespace terrace::wire {
namespace {

using Asked = Executor::Asked;
constexpr std::uint32_t none = Executor::none;

// An executor with memory of exactly the size that it asks for, between bytes that must stay as they are.
class Guarded {
 public:
  explicit Guarded(const ExecutorPlan& plan)
      : bytes_(Executor::memory_bytes(plan)), memory_(new std::byte[bytes_ + 2 * guard]) {
    std::memset(memory_.get(), pattern, bytes_ + 2 * guard);
    executor_ = std::make_unique<Executor>(plan, memory_.get() + guard);
  }
  Executor* operator->() { return executor_.get(); }
  Executor& operator*() { return *executor_; }
  bool is_intact() const {
    for (std::size_t i = 0; i < guard; ++i) {
      if (memory_[i] != std::byte{pattern} || memory_[guard + bytes_ + i] != std::byte{pattern}) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t guard = 64;
  static constexpr unsigned char pattern = 0xa5;
  std::size_t bytes_;
  std::unique_ptr<std::byte[]> memory_;
  std::unique_ptr<Executor> executor_;
};

ScheduleEntry entry(std::uint32_t at, std::uint32_t by, std::uint32_t object, Action action,
                    std::uint64_t begin = 0, std::uint64_t bytes = whole_object) {
  return {at, object, action, moves(action) ? 1U : 0U, 0, by, begin, bytes};
}

struct Written {
  std::vector<ScheduleEntry> entries;
  std::vector<ScheduleObject> objects;
  std::uint32_t period = 10;
  std::uint32_t extra = 4, links = 1;
  Order out_order = Order::deadline, in_order = Order::deadline;

  ExecutorPlan plan() const { return {entries, objects, period, out_order, in_order, links, extra}; }
};

Written three_objects(std::vector<ScheduleEntry> entries) {
  Written w;
  w.entries = std::move(entries);
  for (std::uint32_t i = 0; i < 3; ++i) w.objects.push_back({i, 100, i, 0});
  return w;
}

constexpr std::uint32_t out_lane = Executor::lane(0, Way::out), in_lane = Executor::lane(0, Way::in);

void ask_all_due(Executor& executor) {
  for (std::uint32_t e = executor.take(); e != none; e = executor.take()) executor.ask(e, 0);
}

}  // namespace

TEST_CASE("Nothing is due before its ordinal and everything of one ordinal comes in its order") {
  const Written w = three_objects({entry(2, 5, 0, Action::out), entry(2, 2, 1, Action::drop),
                                   entry(2, 9, 2, Action::out), entry(10, 12, 0, Action::in)});
  Guarded executor(w.plan());
  executor->advance(1);
  CHECK(executor->take() == none);
  executor->advance(2);
  CHECK(executor->take() == 0);
  CHECK(executor->take() == 1);
  CHECK(executor->take() == 2);
  CHECK(executor->take() == none);
  executor->advance(99);  // no further than the period's end, where the last one is due
  CHECK(executor->take() == 3);
  CHECK(executor->missed() == 0);
  executor->begin_period();
  executor->begin_period();
  CHECK(executor->missed() == 4);
}

TEST_CASE("A link serves by deadline or by who asked first as the schedule says") {
  const std::vector<ScheduleEntry> entries = {entry(1, 9, 0, Action::in), entry(1, 3, 1, Action::in),
                                              entry(1, 9, 2, Action::in)};
  Written w = three_objects(entries);
  Guarded by_deadline(w.plan());
  w.in_order = Order::asked;
  Guarded by_asking(w.plan());
  for (Guarded* executor : {&by_deadline, &by_asking}) {
    (*executor)->advance(1);
    ask_all_due(**executor);
  }
  const auto order = [](Guarded& executor) {
    std::vector<std::uint32_t> nodes;
    while (executor->next(in_lane) != none) {
      nodes.push_back(executor->next(in_lane));
      executor->start(nodes.back());
    }
    return nodes;
  };
  CHECK(order(by_deadline) == std::vector<std::uint32_t>{1, 0, 2});
  CHECK(order(by_asking) == std::vector<std::uint32_t>{0, 1, 2});
}

TEST_CASE("What is wanted back before it left has never left") {
  const Written w = three_objects({entry(1, 8, 0, Action::out), entry(3, 8, 0, Action::in)});
  Guarded executor(w.plan());
  executor->advance(1);
  CHECK(executor->ask(executor->take(), 0) == Asked::waits);
  executor->advance(3);
  CHECK(executor->ask(executor->take(), 0) == Asked::called_off);
  CHECK((executor->next(out_lane) == none && executor->next(in_lane) == none));
  CHECK(executor->away_bytes(0) == 0);
}

TEST_CASE("Somebody who waits goes first and is not fetched twice") {
  const Written w = three_objects({entry(1, 3, 0, Action::in), entry(1, 4, 1, Action::in)});
  Guarded executor(w.plan());
  executor->advance(1);
  ask_all_due(*executor);
  const Executor::Request request{.object = 2, .way = Way::in, .urgent = true};
  CHECK(executor->ask_extra(2, request) == Asked::waits);
  CHECK(executor->next(in_lane) == 2);
  CHECK(executor->ask_extra(3, {.object = 1, .way = Way::in, .urgent = true}) == Asked::there);
  executor->hurry(executor->waiting_of(1));
  executor->start(2);
  CHECK(executor->next(in_lane) == 1);
}

TEST_CASE("What leaves late in a period is back early in the next one") {
  const Written w = three_objects({entry(0, 2, 0, Action::in), entry(0, 1, 1, Action::in),
                                   entry(8, 12, 0, Action::out), entry(9, 14, 2, Action::in)});
  Guarded executor(w.plan());
  executor->set_away(0, 100);  // it left in the period before
  ask_all_due(*executor);
  for (const std::uint32_t node : {1U, 0U}) {
    CHECK(executor->next(in_lane) == node);
    executor->start(node);
    executor->done(node);
  }
  CHECK(executor->away_bytes(0) == 0);
  executor->advance(10);
  ask_all_due(*executor);
  executor->start(2);
  executor->begin_period();  // with 2 under way, and 3 of the last period waiting: due at 4 of this one
  executor->done(2);
  CHECK(executor->away_bytes(0) == 100);
  ask_all_due(*executor);
  CHECK(executor->next(in_lane) == 1);  // due at 1
  executor->start(1);
  CHECK(executor->next(in_lane) == 0);  // at 2
  executor->start(0);
  CHECK(executor->next(in_lane) == 3);
  executor->done(0);
  CHECK(executor->away_bytes(0) == 0);
}

TEST_CASE("A program that departs leaves nothing waiting and its away objects told") {
  const Written w = three_objects({entry(1, 8, 0, Action::out), entry(2, 8, 1, Action::out),
                                   entry(3, 9, 2, Action::out), entry(5, 9, 0, Action::in)});
  Guarded executor(w.plan());
  executor->advance(4);
  ask_all_due(*executor);
  executor->start(0);
  executor->done(0);
  executor->start(1);
  executor->depart();
  CHECK(!executor->is_following());
  CHECK(executor->next(out_lane) == none);
  CHECK(executor->waiting_of(2) == none);
  executor->advance(9);
  CHECK(executor->take() == none);
  executor->done(1);  // it was under way
  CHECK(executor->away_bytes(0) == 100);
  CHECK(executor->away_bytes(1) == 100);
  CHECK(executor->away_bytes(2) == 0);
  // The reactive policy fetches meanwhile; then the sequence is back.
  CHECK(executor->ask_extra(4, {.object = 0, .way = Way::in, .urgent = true}) == Asked::waits);
  executor->begin_period();
  CHECK(executor->missed() == 0);
  executor->advance(1);
  CHECK(executor->take() == 0);
}

TEST_CASE("The ordinal at which something is due next is told also where feedback has moved it") {
  const Written w = three_objects({entry(2, 6, 0, Action::out), entry(5, 9, 0, Action::in)});
  Guarded executor(w.plan());
  CHECK(executor->next_trigger() == 2);
  executor->advance(3);
  CHECK(executor->next_trigger() == 2);
  CHECK(executor->take() == 0);
  CHECK(executor->next_trigger() == 5);
  executor->advance(5);
  CHECK(executor->take() == 1);
  CHECK(executor->next_trigger() == none);
  executor->late(1);
  executor->begin_period();
  executor->advance(2);
  CHECK(executor->take() == 0);
  CHECK(executor->next_trigger() == 4);
  executor->depart();
  CHECK(executor->next_trigger() == none);
}

TEST_CASE("Feedback moves the trigger of what comes back from the next period on within its bounds") {
  Written w = three_objects({entry(10, 60, 0, Action::out), entry(40, 60, 0, Action::in),
                             entry(45, 145, 1, Action::in), entry(50, 50, 2, Action::drop)});
  w.period = 100;
  Guarded executor(w.plan());
  executor->late(1);
  executor->late(2);
  executor->late(3);  // no way back: no trigger to move
  CHECK(executor->trigger(1) == 40);
  executor->begin_period();
  CHECK(executor->trigger(1) == 39);      // a twentieth of 20
  CHECK(executor->trigger(2) == 45 - 5);  // a twentieth of 100
  CHECK(executor->trigger(3) == 50);
  for (int i = 0; i < 200; ++i) executor->late(1), executor->late(2);
  executor->begin_period();
  CHECK(executor->trigger(1) == 10);  // when it left; after that entry, by its order
  CHECK(executor->trigger(2) == 0);
  executor->advance(0);
  CHECK(executor->take() == 2);
  executor->advance(10);
  CHECK(executor->take() == 0);
  CHECK(executor->take() == 1);
  for (int i = 0; i < 200; ++i) executor->early(1), executor->early(2);
  executor->begin_period();
  CHECK(executor->trigger(1) == 60);   // its deadline
  CHECK(executor->trigger(2) == 100);  // the period's end, before its deadline
  executor->late(1);
  executor->begin_period();
  CHECK(executor->trigger(1) == 59);  // what went beyond the bound was not saved up
}

TEST_CASE("Parts of an object move by themselves") {
  const Written w = three_objects({entry(1, 8, 0, Action::out, 0, 60), entry(1, 8, 0, Action::out, 60, 40),
                                   entry(4, 8, 0, Action::in, 0, 30), entry(4, 8, 0, Action::in, 30)});
  Guarded executor(w.plan());
  executor->advance(1);
  ask_all_due(*executor);
  executor->start(0);
  executor->done(0);
  CHECK(executor->away_bytes(0) == 60);
  executor->advance(4);
  CHECK(executor->ask(executor->take(), 0) == Asked::waits);
  CHECK(executor->next(out_lane) == 1);
  CHECK(executor->ask(executor->take(), 0) == Asked::waits);  // some of it is away, some has not left yet
  CHECK(executor->next(out_lane) == none);
  executor->start(2);
  executor->done(2);
  CHECK(executor->away_bytes(0) == 30);
  CHECK(executor->next(in_lane) == 3);
  executor->forget(0);
  CHECK(executor->away_bytes(0) == 0);
}

namespace {

class RandomRun {
 public:
  explicit RandomRun(std::uint32_t seed) : random_(seed) {
    written_.period = 1 + below(40);
    written_.links = 1 + below(2);
    written_.extra = 5;
    written_.out_order = below(2) == 0 ? Order::asked : Order::deadline;
    written_.in_order = below(2) == 0 ? Order::asked : Order::deadline;
    const std::uint32_t objects = 1 + below(8);
    for (std::uint32_t i = 0; i < objects; ++i) written_.objects.push_back({i, below(100), i, 0});
    for (std::uint32_t n = below(40); n > 0; --n) written_.entries.push_back(random_entry());
    std::stable_sort(written_.entries.begin(), written_.entries.end(),
                     [](const ScheduleEntry& a, const ScheduleEntry& b) { return a.at < b.at; });
  }

  void run(int steps) {
    const ExecutorPlan plan = written_.plan();
    Guarded executor(plan);
    test::ExecutorModel model(plan);
    for (int i = 0; i < steps; ++i) {
      step(*executor, model);
      compare(*executor, model);
      REQUIRE(executor.is_intact());
    }
    REQUIRE(executor->missed() == model.missed());
  }

 private:
  std::mt19937 random_;
  Written written_;

  std::uint32_t below(std::size_t limit) { return static_cast<std::uint32_t>(random_() % limit); }
  std::uint32_t object() { return below(written_.objects.size()); }
  std::uint32_t node() { return below(written_.plan().nodes()); }

  ScheduleEntry random_entry() {
    const std::uint32_t at = below(written_.period + 1), o = object();
    const std::uint64_t all = written_.objects[o].bytes, begin = below(2) == 0 ? 0 : below(all + 1);
    const auto action = static_cast<Action>(below(static_cast<std::size_t>(Action::count)));
    return entry(at, at + below(written_.period + 1), o, action, begin,
                 below(2) == 0 ? whole_object : below(all - begin + 1));
  }

  void take(Executor& executor, test::ExecutorModel& model) {
    const std::uint32_t e = executor.take();
    REQUIRE(e == model.take());
    if (e == none) return;
    const ScheduleEntry& taken = written_.entries[e];
    const std::uint32_t link = below(written_.links);
    if (moves(taken.action)) REQUIRE(executor.ask(e, link) == model.ask(e, link));
    if (taken.action == Action::drop) executor.forget(taken.object), model.forget(taken.object);
  }

  void ask_extra(Executor& executor, test::ExecutorModel& model) {
    const auto first = static_cast<std::uint32_t>(written_.entries.size());
    const std::uint32_t node = first + below(written_.extra);
    Executor::Request r{.object = object(),
                        .way = below(2) == 0 ? Way::in : Way::out,
                        .link = below(written_.links),
                        .urgent = below(2) == 0};
    r.begin = below(written_.objects[r.object].bytes + 1);
    REQUIRE(executor.ask_extra(node, r) == model.ask_extra(node, r));
  }

  void start(Executor& executor, test::ExecutorModel& model) {
    const std::uint32_t next = executor.next(below(written_.links * 2));
    if (next != none) executor.start(next), model.start(next);
  }

  void end(Executor& executor, test::ExecutorModel& model) {
    if (model.under_way().empty()) return;
    const std::uint32_t node = model.under_way().begin()->first;
    if (below(4) == 0) {
      executor.abort(node), model.abort(node);
    } else {
      executor.done(node), model.done(node);
    }
  }

  void change(Executor& executor, test::ExecutorModel& model) {
    const std::uint32_t n = node(), o = object();
    switch (below(6)) {
      case 0:
        return executor.hurry(n), model.hurry(n);
      case 1:
        return executor.call_off(n), model.call_off(n);
      case 2:
        return executor.forget(o), model.forget(o);
      case 3:
        if (below(8) == 0) executor.depart(), model.depart();
        return;
      default:
        if (n >= written_.entries.size()) return;
        return below(2) == 0 ? (executor.late(n), model.shift(n, -1))
                             : (executor.early(n), model.shift(n, 1));
    }
  }

  void step(Executor& executor, test::ExecutorModel& model) {
    switch (below(10)) {
      case 0: {
        const std::uint32_t ordinal = below(written_.period + 3);
        return executor.advance(ordinal), model.advance(ordinal);
      }
      case 1:
        if (below(4) == 0) executor.begin_period(), model.begin_period();
        return;
      case 2:
      case 3:
      case 4:
        return take(executor, model);
      case 5:
        return ask_extra(executor, model);
      case 6:
        return start(executor, model);
      case 7:
        return end(executor, model);
      default:
        return change(executor, model);
    }
  }

  void compare(Executor& executor, const test::ExecutorModel& model) const {
    std::size_t waiting = 0;
    for (std::uint32_t lane = 0; lane < written_.links * 2; ++lane) {
      REQUIRE(executor.next(lane) == model.next(lane));
      waiting += executor.waiting(lane).size();
    }
    REQUIRE(waiting == model.waiting().size());
    for (std::uint32_t o = 0; o < written_.objects.size(); ++o) {
      REQUIRE(executor.away_bytes(o) == model.away_bytes(o));
      const std::uint32_t first = executor.waiting_of(o);
      const auto is_its = [o](const auto& w) { return w.object == o; };
      REQUIRE((first != none) == std::any_of(model.waiting().begin(), model.waiting().end(), is_its));
      if (first != none) REQUIRE(model.waits(first));
    }
    for (std::uint32_t n = 0; n < written_.plan().nodes(); ++n)
      REQUIRE(executor.is_under_way(n) == model.under_way().contains(n));
    for (std::uint32_t e = 0; e < written_.entries.size(); ++e)
      REQUIRE(executor.trigger(e) == model.trigger(e));
  }
};

}  // namespace

TEST_CASE("Random schedules go as the model says whatever the program does") {
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    RandomRun(seed).run(500);
  }
}

}  // namespace terrace::wire
