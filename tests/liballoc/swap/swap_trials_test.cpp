// Whose turn it is, for programs that are made up second by second.
#include "liballoc/agent/swap/swap_trials.h"

#include <catch2/catch.hpp>

namespace terrace::liballoc {
namespace {

// What a program does in a second: of ours, and of the kernel's turn.
struct Second {
  unsigned program_ms = 0;
  unsigned waited_ms = 0;
  unsigned faults = 0;
  unsigned evicted_kib_a_fault = 0;
};
constexpr Second scattered{.program_ms = 60, .waited_ms = 400, .faults = 4000, .evicted_kib_a_fault = 64};
constexpr Second single_pages{.program_ms = 100, .waited_ms = 700, .faults = 5000, .evicted_kib_a_fault = 5};
// Each touch waits for a place that a write has to leave first.
constexpr Second slow_pages{.program_ms = 10, .waited_ms = 700, .faults = 900, .evicted_kib_a_fault = 6};
// A slow drive, or too much for too few touches: that says nothing.
constexpr Second unclear{.program_ms = 20, .waited_ms = 600, .faults = 300, .evicted_kib_a_fault = 700};
constexpr Second streams{.program_ms = 300, .waited_ms = 600, .faults = 300, .evicted_kib_a_fault = 2048};
constexpr Second computes{.program_ms = 900, .waited_ms = 90, .faults = 2000, .evicted_kib_a_fault = 64};

constexpr Second swapped(unsigned program_ms) { return {.program_ms = program_ms}; }
constexpr Second comes_over{.program_ms = 5, .waited_ms = 800, .faults = 300};

class Program {
 public:
  // True: it is the kernel's turn at the end.
  bool lives(unsigned seconds, const Second& second, bool may_swap = true) {
    for (unsigned i = 0; i < seconds; ++i) {
      look_.now_ns += SwapTrials::second_ns;
      look_.program_ns += second.program_ms * 1'000'000ULL;
      look_.waited_ns += second.waited_ms * 1'000'000ULL;
      look_.faults += second.faults;
      look_.evicted_bytes += 1024ULL * second.faults * second.evicted_kib_a_fault;
      look_.may_swap = may_swap;
      REQUIRE(trials_.is_due(look_.now_ns));
      const bool was_kernels = trials_.is_kernels();
      const bool is_kernels = trials_.look(look_);
      turns_ += !was_kernels && is_kernels ? 1 : 0;
      kernels_seconds_ += was_kernels ? 1 : 0;
      CHECK_FALSE(trials_.is_due(look_.now_ns + SwapTrials::look_ns - 1));
    }
    return trials_.is_kernels();
  }
  // Until the kernel's turn begins, at most so long. False: it did not.
  bool lives_until_turn(unsigned seconds, const Second& second) {
    for (unsigned i = 0; i < seconds; ++i)
      if (lives(1, second)) return true;
    return false;
  }
  void has_away(std::uint64_t bytes) { look_.away_bytes = bytes; }
  bool is_kept() const { return trials_.is_kept(); }
  unsigned turns() const { return turns_; }
  unsigned kernels_seconds() const { return kernels_seconds_; }

 private:
  SwapTrials trials_;
  SwapTrials::Look look_{.now_ns = 5 * SwapTrials::second_ns};
  unsigned turns_ = 0;
  unsigned kernels_seconds_ = 0;
};

}  // namespace

TEST_CASE("Swap is tried where much moves for many touches, and kept where it is faster") {
  Program p;
  CHECK_FALSE(p.lives(SwapTrials::least_looks_to_be_sure, scattered));
  CHECK(p.lives(1, scattered));  // the first look only began to count
  CHECK(p.lives(3, comes_over));
  CHECK(p.lives(1, swapped(100)));  // settled
  CHECK(p.lives(SwapTrials::looks_on_trial - 1, swapped(100)));
  CHECK_FALSE(p.is_kept());
  CHECK(p.lives(1, swapped(100)));
  CHECK(p.is_kept());
  CHECK(p.turns() == 1);
}

TEST_CASE("Swap is not tried for what streams, what computes, or what single pages serve") {
  const Second second = GENERATE(streams, single_pages, computes, Second{});
  Program p;
  CHECK_FALSE(p.lives(1000, second));
  CHECK(p.turns() == 0);
}

TEST_CASE("Swap is tried where single pages take long, and what is unclear neither counts nor clears") {
  Program p;
  CHECK_FALSE(p.lives(SwapTrials::least_looks_to_be_sure, slow_pages));
  CHECK_FALSE(p.lives(100, unclear));
  CHECK(p.lives(1, slow_pages));
}

TEST_CASE("The more is away, the longer it takes to be sure") {
  Program p;
  p.has_away(60 * SwapTrials::away_bytes_a_look);
  CHECK_FALSE(p.lives(60, scattered));
  CHECK(p.lives(1, scattered));
}

TEST_CASE("Swap is not tried because of a few bad seconds, nor where it has no room") {
  Program p;
  for (int i = 0; i < 100; ++i) {
    CHECK_FALSE(p.lives(SwapTrials::least_looks_to_be_sure - 1, scattered));
    CHECK_FALSE(p.lives(1, computes));
  }
  CHECK_FALSE(p.lives(100, scattered, false));
  CHECK(p.turns() == 0);
  CHECK(p.lives(1, scattered));
}

TEST_CASE("Trials in vain come ever more seldom") {
  Program p;
  unsigned since_last = 0;
  for (int trial = 0; trial < 6; ++trial) {
    unsigned waited = 0;
    while (!p.lives(1, scattered))
      REQUIRE(++waited < 2 * SwapTrials::longest_pause_ns / SwapTrials::second_ns);
    if (trial > 1) CHECK(2 * waited >= 3 * since_last);
    since_last = waited;
    CHECK(p.lives(2, comes_over));
    CHECK(p.lives(1, swapped(62)));
    CHECK(p.lives(SwapTrials::looks_on_trial - 1, swapped(62)));
    CHECK_FALSE(p.lives(1, swapped(62)));  // hardly faster
  }
  CHECK(p.turns() == 6);
}

TEST_CASE("A trial under which the program stands still ends at once") {
  Program p;
  REQUIRE(p.lives_until_turn(20, scattered));
  CHECK(p.lives(1, swapped(20)));
  CHECK_FALSE(p.lives(1, swapped(20)));
}

TEST_CASE("A trial whose memory does not come over in time is judged as it is then") {
  Program p;
  REQUIRE(p.lives_until_turn(20, scattered));
  CHECK_FALSE(p.lives(SwapTrials::most_looks_to_settle + SwapTrials::looks_on_trial, comes_over));
}

TEST_CASE("What is kept ends when the program gets on less than it did with us, or swap runs out") {
  Program p;
  REQUIRE(p.lives_until_turn(20, scattered));
  REQUIRE(p.lives(1 + SwapTrials::looks_on_trial, swapped(100)));
  REQUIRE(p.is_kept());
  CHECK(p.lives(SwapTrials::looks_on_trial, swapped(90)));
  SECTION("slower") { CHECK_FALSE(p.lives(SwapTrials::looks_on_trial, swapped(40))); }
  SECTION("no room") { CHECK_FALSE(p.lives(1, swapped(100), false)); }
  CHECK_FALSE(p.lives(SwapTrials::least_looks_to_be_sure, scattered));  // not tried again at once
  CHECK_FALSE(p.lives(40, scattered));
}

TEST_CASE("What is kept ends after a while, and is kept longer if it has to be tried again") {
  Program p;
  unsigned last = 0;
  for (int turn = 0; turn < 4; ++turn) {
    REQUIRE(p.lives_until_turn(20, scattered));  // at once
    unsigned lasted = 0;
    while (p.lives(1, swapped(100))) REQUIRE(++lasted < SwapTrials::longest_pause_ns / SwapTrials::second_ns);
    CHECK(lasted >= 2 * last * 9 / 10);
    last = lasted;
  }
  CHECK(p.turns() == 4);
}

// Whatever a program does: of ten minutes at most so many are lost to trials in vain.
TEST_CASE("Trials in vain take little of a program's time") {
  Program p;
  for (int i = 0; i < 3600; ++i) p.lives(1, i % 7 < 6 || p.turns() > 0 ? scattered : single_pages);
  CHECK(p.kernels_seconds() < 3600 / 10);
}

}  // namespace terrace::liballoc
