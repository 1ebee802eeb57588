// Whether polling beside a thread that waits goes on: as what it gains says.
#include "liballoc/agent/waiting/halt_polling.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

namespace terrace::liballoc {
namespace {

constexpr std::uint64_t us = 1000;
constexpr unsigned touches_of_trial = HaltPolling::looks * HaltPolling::touches_of_look;

// A program that touches the next page so long after the last one, with polling and without.
struct Toucher {
  std::uint64_t polled_ns;
  std::uint64_t halted_ns;
  HaltPolling polling;
  std::uint64_t now_ns = 1'000'000'000;

  // How many of so many touches were waited for with polling.
  unsigned touch(
      unsigned touches,
      const std::function<std::uint32_t(unsigned)>& thread_of = [](unsigned) { return 7U; }) {
    unsigned polled = 0;
    for (unsigned n = 0; n < touches; ++n) {
      polling.note_fault(thread_of(n), now_ns);
      polled += polling.polls() ? 1 : 0;
      now_ns += polling.polls() ? polled_ns : halted_ns;
    }
    return polled;
  }
};

}  // namespace

TEST_CASE("Half of the touches are tried with polling, and all that follow where these come sooner") {
  Toucher toucher{60 * us, 75 * us, {}};
  CHECK(toucher.touch(touches_of_trial) == touches_of_trial / 2);
  CHECK(toucher.touch(HaltPolling::most_rest) == HaltPolling::most_rest);
}

TEST_CASE("What polling hardly gains is not worth a processor's time") {
  Toucher toucher{73 * us, 75 * us, {}};
  toucher.touch(touches_of_trial + 1);
  CHECK(toucher.touch(HaltPolling::least_rest - 2) == 0);
}

TEST_CASE("Polling is tried anew, less and less often while it gains nothing") {
  Toucher toucher{75 * us, 75 * us, {}};
  for (unsigned rest = HaltPolling::least_rest; rest < 4 * HaltPolling::most_rest; rest *= 2) {
    toucher.touch(touches_of_trial + 1);
    CHECK(toucher.touch(std::min(rest, HaltPolling::most_rest) - 1) == 0);
  }
  toucher.polled_ns = 60 * us;
  toucher.touch(touches_of_trial + 1);
  CHECK(toucher.touch(HaltPolling::most_rest - 1) == HaltPolling::most_rest - 1);
  toucher.polled_ns = 80 * us;
  toucher.touch(touches_of_trial + 1);
  CHECK(toucher.touch(HaltPolling::least_rest - 1) == 0);
}

TEST_CASE("A drive that gets slower while polling is tried favours neither") {
  Toucher toucher{50 * us, 50 * us, {}};
  for (unsigned n = 0; n < touches_of_trial; ++n) {
    toucher.touch(1);
    toucher.polled_ns = toucher.halted_ns += us / 10;
  }
  CHECK(toucher.touch(HaltPolling::least_rest / 2) == 0);
}

TEST_CASE("A machine that others slow down for a while hides no gain") {
  Toucher toucher{60 * us, 75 * us, {}};
  for (unsigned n = 0; n < touches_of_trial; ++n) {
    toucher.touch(1);
    if (n >= touches_of_trial / 4 && n < touches_of_trial / 2) toucher.now_ns += 40 * us;
  }
  CHECK(toucher.touch(100) == 100);
}

TEST_CASE("Touches that are far apart count for nothing") {
  Toucher toucher{600 * us, 700 * us, {}};
  CHECK(toucher.touch(HaltPolling::touches_of_look) == 0);
  CHECK(toucher.touch(100 * touches_of_trial) == 0);  // nor does a trial ever begin
  toucher.polled_ns = 60 * us;
  toucher.halted_ns = 75 * us;
  CHECK(toucher.touch(touches_of_trial) >= touches_of_trial / 2 - 1);
  CHECK(toucher.touch(100) == 100);
}

TEST_CASE("Nobody polls where several threads wait") {
  Toucher toucher{60 * us, 75 * us, {}};
  const auto two_in_turn = [](unsigned n) { return n % 2; };
  toucher.touch(touches_of_trial, two_in_turn);
  CHECK(toucher.touch(HaltPolling::least_rest / 4, two_in_turn) == 0);
}

TEST_CASE("A thread that waits now and then beside another is passed over") {
  Toucher toucher{60 * us, 75 * us, {}};
  const auto seldom_another = [](unsigned n) { return n % 32 == 0 ? 1U : 0U; };
  toucher.touch(touches_of_trial, seldom_another);
  CHECK(toucher.touch(1000, seldom_another) == 1000);
}

}  // namespace terrace::liballoc
