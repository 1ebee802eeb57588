// The engine under a plan, as a program drives it that has its tensors in memory of its own: what the plan
// moves comes back with the same bits, memory stays within what the heuristic took, and what is not as the
// plan expected is the heuristic's.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>

#include "tests/liballoc/gpu/offload/engine_fixture.h"

using namespace terrace::liballoc::offload::test;

namespace {

// The heuristic of this program: whatever is saved leaves, and its memory is let go of, one tensor later; and
// what is asked for comes when it is asked for.
class Program {
 public:
  Program(const Opened& engine, std::vector<std::uint64_t> sizes, long interval_ms)
      : engine_(engine), sizes_(std::move(sizes)), interval_ms_(interval_ms) {
    for (std::size_t i = 0; i < sizes_.size(); ++i) expected_.push_back(content(sizes_[i], i + 1));
  }

  enum class Departs { by_another_size, by_the_caller };

  // false: some bits are wrong
  bool step(std::size_t departs_at = ~std::size_t{0}, Departs departs = Departs::by_another_size) {
    departs_ = departs;
    tensors_.assign(sizes_.size(), {});
    peak_bytes_ = bytes_ = 0;
    bool is_right = true;
    for (std::size_t i = 0; i < sizes_.size(); ++i) save(i, i == departs_at);
    for (std::size_t i = sizes_.size(); i-- > 0;) is_right &= want(i);
    for (Tensor& tensor : tensors_)
      if (tensor.id != 0) engine_.release(tensor.id);
    REQUIRE(terrace_offload_end_step(engine_.get()) == 0);
    return is_right;
  }
  std::uint64_t peak_bytes() const { return peak_bytes_; }
  std::size_t moved_by_plan() const { return moved_by_plan_; }

 private:
  struct Tensor {
    std::vector<std::byte> memory;
    std::uint64_t id = 0;
    bool has_left = false;
  };

  void save(std::size_t i, bool departs) {
    pause_ms(interval_ms_);
    tensors_[i].memory = expected_[i];
    take(sizes_[i]);
    const bool by_size = departs && departs_ == Departs::by_another_size;
    int code = terrace_offload_plan_saved(engine_.get(), i, sizes_[i] + (by_size ? 1 : 0));
    REQUIRE(code >= 0);
    if (departs && !by_size) {
      REQUIRE((code & TERRACE_PLAN_FOLLOWS) != 0);
      code = terrace_offload_plan_depart(engine_.get());
      CHECK(code == TERRACE_PLAN_DEPARTED);
      CHECK(terrace_offload_plan_depart(engine_.get()) == 0);  // once
    }
    CHECK((!departs || (code & TERRACE_PLAN_FOLLOWS) == 0));
    carry_out();
    if ((code & TERRACE_PLAN_FOLLOWS) != 0) return;
    if (i > 0) let_go(i - 1);
    send(i);
  }
  bool want(std::size_t i) {
    REQUIRE(terrace_offload_plan_wanted(engine_.get(), i, 0) >= 0);
    const std::vector<std::size_t> coming = carry_out();
    Tensor& tensor = tensors_[i];
    if (tensor.has_left) {
      if (tensor.memory.empty()) make(i);
      REQUIRE(engine_.fetch(tensor.id, tensor.memory) == 0);
    }
    for (const std::size_t next : coming) {
      if (!tensors_[next].has_left || !tensors_[next].memory.empty()) continue;
      make(next);
      REQUIRE(terrace_offload_fetch(engine_.get(), tensors_[next].id, tensors_[next].memory.data(),
                                    nullptr) == 0);
    }
    const bool is_right = tensor.memory == expected_[i];
    pause_ms(interval_ms_);
    if (tensor.id != 0) engine_.release(std::exchange(tensor.id, 0));
    tensor.memory = {};
    bytes_ -= sizes_[i];
    return is_right;
  }
  void make(std::size_t i) {
    tensors_[i].memory.resize(sizes_[i]);
    take(sizes_[i]);
    CHECK(terrace_offload_plan_back(engine_.get(), i) == 0);
  }
  std::vector<std::size_t> carry_out() {
    std::vector<std::size_t> coming;
    terrace_offload_move moves[3];
    for (std::size_t count = 3; count == 3;) {
      count = terrace_offload_plan_moves(engine_.get(), moves, 3);
      for (std::size_t i = 0; i < count; ++i, ++moved_by_plan_) {
        if (moves[i].what == TERRACE_MOVE_IN) coming.push_back(moves[i].number);
        if (moves[i].what == TERRACE_MOVE_GIVE_UP) let_go(moves[i].number);
        if (moves[i].what > TERRACE_MOVE_DRIVE) continue;
        send(moves[i].number);
        if (moves[i].what == TERRACE_MOVE_DRIVE)
          CHECK(terrace_offload_plan_write(engine_.get(), tensors_[moves[i].number].id) == 0);
      }
    }
    return coming;
  }
  void send(std::size_t i) {
    if (tensors_[i].id == 0) tensors_[i].id = engine_.store(tensors_[i].memory);
  }
  void let_go(std::size_t i) {
    Tensor& tensor = tensors_[i];
    if (tensor.id == 0 || tensor.has_left) return;
    REQUIRE(engine_.leave(tensor.id) == 1);
    std::fill(tensor.memory.begin(), tensor.memory.end(), std::byte{0xee});  // others' from now on
    tensor.memory = {};
    tensor.has_left = true;
    bytes_ -= sizes_[i];
    CHECK(terrace_offload_plan_gone(engine_.get(), i) == 0);
  }
  void take(std::uint64_t bytes) {
    bytes_ += bytes;
    peak_bytes_ = std::max(peak_bytes_, bytes_);
  }

  const Opened& engine_;
  const std::vector<std::uint64_t> sizes_;
  const long interval_ms_;
  std::vector<std::vector<std::byte>> expected_;
  std::vector<Tensor> tensors_;
  Departs departs_ = Departs::by_another_size;
  std::uint64_t bytes_ = 0, peak_bytes_ = 0;
  std::size_t moved_by_plan_ = 0;
};

std::string text_of(const Opened& engine) {
  char text[512] = "";
  CHECK(terrace_offload_plan_text(engine.get(), text, sizeof(text)) == 0);
  return text;
}

// A busy machine has times of its own: plans are followed whether or not they are slower, but where the
// judge is what is tested.
Options planned_on(const char* device, const char* policy = "best", const char* trial = "off") {
  Options options{.device = device};
  options.policy = policy;
  options.trial = trial;
  return options;
}

// Until a plan is in force, and so many steps have run under it.
std::uint64_t run_until_planned(const Opened& engine, Program& program, std::uint64_t wanted) {
  for (int step = 0; step < 60 && engine.statistics().planned_steps < wanted; ++step) REQUIRE(program.step());
  return engine.statistics().planned_steps;
}

const std::vector<std::uint64_t> even(10, mib);
const std::vector<std::uint64_t> uneven{2 * mib, 100 * kib, 3 * mib, mib, mib, 70 * kib, 2 * mib + 4, mib};

}  // namespace

TEST_CASE("APlannedStepHasTheSameBitsAndNoMoreMemory") {
  const char* const device =
      GENERATE("emulated:1G,d2h=300M,h2d=300M", "emulated:1G,d2h=300M,h2d=300M,lag=20ms");
  const auto sizes = GENERATE(even, uneven);
  const Opened engine(planned_on(device));
  Program program(engine, sizes, 4);
  REQUIRE(program.step());
  REQUIRE(program.step());
  const std::uint64_t heuristic_peak = program.peak_bytes();
  const std::uint64_t planned = run_until_planned(engine, program, 3);
  INFO(device << ", " << sizes.size() << " tensors: " << text_of(engine));
  REQUIRE(planned >= 3);
  CHECK(engine.statistics().plans_made >= 1);
  CHECK(engine.statistics().plan_predicted_ns > 0);
  CHECK(program.moved_by_plan() > 0);
  CHECK(program.peak_bytes() <= heuristic_peak);
  CHECK(engine.statistics().plan_departures == 0);
  CHECK(engine.statistics().live == 0);
}

TEST_CASE("APlanMayTakeWhatALimitLeaves") {
  const Opened engine(planned_on("emulated:1G,d2h=300M,h2d=300M"));
  Program program(engine, even, 4);
  for (int step = 0; step < 60 && engine.statistics().planned_steps < 3; ++step) {
    REQUIRE(program.step());
    CHECK(terrace_offload_plan_used(engine.get(), 100 * mib, 105 * mib) == 0);  // 5 MiB are left
  }
  INFO(text_of(engine));
  REQUIRE(engine.statistics().planned_steps >= 3);
  CHECK(program.peak_bytes() <= 5 * mib);
  CHECK(program.peak_bytes() > 3 * mib);
}

TEST_CASE("AStepThatLeavesThePlanGoesOnWithoutItAndTheNextFollowsAgain") {
  const Opened engine(planned_on("emulated:1G,d2h=300M,h2d=300M"));
  Program program(engine, even, 4);
  REQUIRE(run_until_planned(engine, program, 1) >= 1);
  const std::uint64_t planned = engine.statistics().planned_steps;
  CHECK(program.step(5));
  CHECK(engine.statistics().plan_departures == 1);
  CHECK(engine.statistics().planned_steps == planned);
  CHECK(program.step());
  CHECK(engine.statistics().planned_steps == planned + 1);
  CHECK(engine.statistics().live == 0);
}

TEST_CASE("TheCallerLeavesThePlanInTheMiddleOfAForwardPass") {
  const Opened engine(planned_on("emulated:1G,d2h=300M,h2d=300M"));
  Program program(engine, even, 4);
  REQUIRE(run_until_planned(engine, program, 1) >= 1);
  const std::uint64_t planned = engine.statistics().planned_steps;
  const std::size_t moved = program.moved_by_plan();
  CHECK(program.step(0, Program::Departs::by_the_caller));
  CHECK(program.moved_by_plan() == moved);
  CHECK(program.step(5, Program::Departs::by_the_caller));
  CHECK(engine.statistics().plan_departures == 2);
  CHECK(engine.statistics().planned_steps == planned);
  CHECK(engine.statistics().plans_made == 1);
  CHECK(program.step());
  CHECK(engine.statistics().planned_steps == planned + 1);
  CHECK(engine.statistics().live == 0);
}

TEST_CASE("WhereALimitLeavesLessThanThePlanTakesAnotherIsMade") {
  const Opened engine(planned_on("emulated:1G,d2h=300M,h2d=300M"));
  Program program(engine, even, 4);
  for (int step = 0; step < 60 && engine.statistics().planned_steps < 1; ++step) {
    REQUIRE(program.step());
    CHECK(terrace_offload_plan_used(engine.get(), 100 * mib, 106 * mib) == 0);
  }
  REQUIRE(engine.statistics().planned_steps >= 1);
  CHECK(terrace_offload_plan_used(engine.get(), 102 * mib, 106 * mib) == 0);  // 4 MiB are left
  CHECK(program.step());
  CHECK(program.peak_bytes() > 4 * mib);  // nothing was in its way
  CHECK(program.step(7, Program::Departs::by_the_caller));
  const std::uint64_t planned = engine.statistics().planned_steps;
  CHECK(run_until_planned(engine, program, planned + 1) == planned + 1);
  CHECK(program.peak_bytes() <= 4 * mib);
  CHECK(engine.statistics().plans_made == 2);
}

TEST_CASE("APlanThatIsComparedAnewIsNotMadeAnew") {
  const Opened engine(planned_on("emulated:1G,d2h=300M,h2d=300M", "best", "on"));
  Program program(engine, even, 4);
  REQUIRE(run_until_planned(engine, program, 10) >= 10);
  const std::uint64_t plans = engine.statistics().plans_made;
  Program slower(engine, even, 14);  // the same step to look at, with a plan and without
  for (int step = 0; step < 14 && engine.statistics().plan_in_force != 0; ++step) REQUIRE(slower.step());
  REQUIRE(engine.statistics().plan_in_force == 0);
  CHECK_THAT(text_of(engine), Catch::Contains("compared anew"));
  for (int step = 0; step < 14 && engine.statistics().plan_in_force == 0; ++step) REQUIRE(slower.step());
  CHECK(engine.statistics().plan_in_force == 1);
  CHECK(engine.statistics().plans_made == plans);
  CHECK(engine.statistics().plan_refusals == 0);
}

TEST_CASE("APlanThatIsWrongIsLaidAside") {
  const Opened engine(planned_on("emulated:1G,d2h=300M,h2d=300M", "best", "on"));
  Program program(engine, even, 4);
  REQUIRE(run_until_planned(engine, program, 1) >= 1);
  Program slower(engine, even, 14);  // the same step to look at, and slower than the plan was made for
  for (int step = 0; step < 40 && engine.statistics().plan_refusals == 0; ++step) REQUIRE(slower.step());
  CHECK(engine.statistics().plan_refusals == 1);
  CHECK(engine.statistics().plan_in_force == 0);
  CHECK_THAT(text_of(engine), Catch::Contains("slower with the plan"));
}

TEST_CASE("WithoutATrialAPlanIsFollowedThoughItIsSlower") {
  const Opened engine(planned_on("emulated:1G,d2h=300M,h2d=300M"));
  Program program(engine, even, 4);
  REQUIRE(run_until_planned(engine, program, 1) >= 1);
  Program slower(engine, even, 14);  // under a trial the plan would be laid aside, or compared anew
  for (int step = 0; step < 14; ++step) {
    REQUIRE(slower.step());
    REQUIRE(engine.statistics().plan_in_force == 1);
  }
  CHECK(engine.statistics().planned_steps >= 15);
  CHECK_THAT(text_of(engine), Catch::StartsWith("plan of "));
}

TEST_CASE("AnotherStepIsLearnedAnew") {
  const Opened engine(planned_on("emulated:1G,d2h=300M,h2d=300M"));
  Program program(engine, even, 2);
  REQUIRE(run_until_planned(engine, program, 1) >= 1);
  Program other(engine, uneven, 2);
  REQUIRE(other.step());
  REQUIRE(other.step());
  REQUIRE(other.step());
  CHECK(engine.statistics().plan_in_force == 0);
  const std::uint64_t planned = engine.statistics().planned_steps;
  CHECK(run_until_planned(engine, other, planned + 1) > planned);
}

TEST_CASE("APlanReachesTheDrive") {
  Options options = planned_on("emulated:1G,d2h=300M,h2d=300M");
  options.dram_bytes = 16 * mib;
  options.nvme_bytes = 256 * mib;
  const Opened engine(options);
  Program program(engine, std::vector<std::uint64_t>(40, mib), 4);
  run_until_planned(engine, program, 2);
  INFO(text_of(engine));
  CHECK(engine.statistics().planned_steps >= 2);
  CHECK(engine.statistics().nvme_written_bytes > 0);
}

TEST_CASE("AnEngineMayBeClosedWhileItPlans") {
  const Opened engine(planned_on("emulated:1G"));
  Program program(engine, std::vector<std::uint64_t>(300, 4 * kib), 0);
  for (int step = 0; step < 12; ++step) REQUIRE(program.step());
}

TEST_CASE("AForkedChildLeavesAPlannedEngineAlone") {
  const Opened engine(planned_on("emulated:1G,d2h=300M,h2d=300M"));
  Program program(engine, even, 2);
  REQUIRE(run_until_planned(engine, program, 1) >= 1);
  const pid_t child = fork();
  if (child == 0) _exit(0);
  int status = 1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(program.step());
}

TEST_CASE("WithoutAPlannerNothingIsPlanned") {
  const Options options = GENERATE(planned_on("emulated:1G", "heuristic"), planned_on("emulated:1G", nullptr),
                                   planned_on("cpu", "g10"));
  const Opened engine(options);
  Program program(engine, even, 0);
  for (int step = 0; step < 12; ++step) REQUIRE(program.step());
  CHECK(terrace_offload_plan_saved(engine.get(), 0, 1) == 0);
  CHECK(terrace_offload_plan_depart(engine.get()) == 0);
  CHECK(engine.statistics().plans_made == 0);
  CHECK_THAT(text_of(engine), Catch::StartsWith("heuristic"));
}

TEST_CASE("ATrialIsOnOrOff") {
  const terrace_offload_config config = config_of(planned_on("emulated:1G", "g10", "of"));
  char reason[512] = "";
  terrace_offload* engine = nullptr;
  CHECK(terrace_offload_open(&config, &engine, reason, sizeof(reason)) == -EINVAL);
  CHECK_THAT(reason, Catch::Contains("trial is 'of'") && Catch::Contains("say on"));
}

TEST_CASE("APolicyThatIsNotKnownIsRefusedWithThoseThatAre") {
  const Options options = planned_on("emulated:1G", "g11");
  const terrace_offload_config config = config_of(options);
  char reason[512] = "";
  terrace_offload* engine = nullptr;
  CHECK(terrace_offload_open(&config, &engine, reason, sizeof(reason)) == -EINVAL);
  CHECK_THAT(reason, Catch::Contains("policy is 'g11'") && Catch::Contains("heuristic, best, g10"));
}
