// A made-up program whose step goes through layers and back, as training does: each layer leaves an
// activation of three runs, which is read on the way back and freed.
//
//     way in, layer i:    a few small blocks, then the activation, which is written        births
//     way back, layer i:  the activation is read and checked, then freed, then the small ones
//
// The small blocks are never touched; they are there for the clock. A mirror of the pager's clock tells which
// ordinal each event has, so that a test can make a schedule for it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "liballoc/lifetimes/event_clock.h"
#include "tests/liballoc/paging/pager_fixture.h"
#include "tests/liballoc/planned/sealed_plan.h"

namespace terrace::liballoc::test {

class LayeredProgram {
 public:
  static constexpr std::uint64_t hash = 42;
  static constexpr std::size_t runs_per_layer = block_bytes / run_bytes;
  static constexpr std::size_t planned_layers = 5;  // that most tests plan for

  // `kind`: programs of different kinds have different sizes. Those of one pager share the clock.
  explicit LayeredProgram(PagerFixture& f, std::size_t layers = 10, unsigned kind = 0,
                          EventClock* shared = nullptr)
      : f_(f),
        clock_(shared != nullptr ? *shared : own_),
        layers_(layers),
        kind_(kind),
        births_(layers),
        deaths_(layers) {
    if (shared == nullptr && own_.initialise(f.space.most_records()) != 0) std::abort();
  }
  ~LayeredProgram() { own_.finish(); }
  LayeredProgram(const LayeredProgram&) = delete;
  LayeredProgram& operator=(const LayeredProgram&) = delete;

  // What happens after each event; by default the pager does all that there is to do, as if the program
  // computed long enough.
  std::function<void()> after_event = [this] { f_.settle(); };
  // After layer i's activation was written; before it is read.
  std::function<void(std::size_t)> written = [](std::size_t) {};
  std::function<void(std::size_t)> to_be_read = [](std::size_t) {};

  void step() {
    std::vector<std::byte*> small, big;
    for (std::size_t i = 0; i < layers_; ++i) {
      for (std::size_t j = 0; j < smalls; ++j) small.push_back(allocate(small_bytes(i, j)));
      big.push_back(allocate(block_bytes, &births_[i]));
      blocks_ = big;
      f_.write(big[i], seed_ + i, block_bytes);
      written(i);
    }
    for (std::size_t i = layers_; i-- > 0;) {
      to_be_read(i);
      if (!f_.reads(big[i], seed_ + i, block_bytes)) ++wrong_;
      release(big[i], &deaths_[i]);
      for (std::size_t j = 0; j < smalls; ++j, small.pop_back()) release(small.back());
    }
    seed_ += layers_;
  }
  // Until the clock knows the step and has been through one; then births and deaths are known.
  void learn() {
    const std::uint64_t before = clock_.counts().periods;
    for (int i = 0; i < 12 && !(clock_.is_claimed() && clock_.counts().periods >= before + 2); ++i) step();
    REQUIRE(clock_.is_claimed());
    phase_ = clock_.phase();
    REQUIRE(clock_.length() == 2 * layers_ * (1 + smalls));
  }
  // Something that is no part of it: it departs.
  void do_something_else() {
    for (int i = 0; i < 60; ++i) release(allocate((17 + i % 3) * 256 * kib));
  }

  EventClock& clock() { return clock_; }
  std::size_t wrong() const { return wrong_; }
  std::size_t layers() const { return layers_; }
  std::uint32_t birth(std::size_t layer) const { return births_[layer]; }
  std::uint32_t death(std::size_t layer) const { return deaths_[layer]; }
  std::byte* block(std::size_t layer) const { return blocks_[layer]; }
  std::uint32_t phase() const { return phase_; }
  // Of the last event that the clock knew.
  std::uint32_t last_ordinal() const { return last_ordinal_; }
  std::uint32_t period() const { return static_cast<std::uint32_t>(2 * layers_ * (1 + smalls)); }
  // The runs of the layer that have left their place.
  std::size_t away(std::size_t layer) {
    std::size_t count = 0;
    for (std::size_t r = 0; r < runs_per_layer; ++r)
      count += f_.state(blocks_[layer] + r * run_bytes) != RunState::resident ? 1 : 0;
    return count;
  }

  // The first `some` layers leave when the next one begins, and return two layers ahead of need.
  std::string plan(std::size_t some) {
    PlanMaker plan(period(), hash);
    for (std::size_t i = 0; i < some; ++i) {
      const std::uint32_t object = plan.object(birth(i), block_bytes);
      plan.out(object, (birth(i) + 2) % period(), (birth(i) + 2) % period() + 10);
      const std::uint32_t at = death(i + 2) + 1;
      plan.in(object, at, death(i));
    }
    return plan.image();
  }
  // From a plan for so many layers on, which is followed when this returns.
  void follow(std::size_t some, std::uint64_t budget = 0) {
    learn();
    REQUIRE(send(plan(some), budget));
    step();
    step();
    REQUIRE(f_.pager.plan().is_following());
  }
  bool send(const std::string& image, std::uint64_t budget = 0) {
    f_.pager.plan().let_judge(false);
    f_.pager.plan().expect(phase(), hash);
    const SealedPlan sealed(image);
    return std::string_view(f_.pager.plan().take(sealed.offer(phase(), hash, budget))).empty();
  }

 private:
  static constexpr std::size_t smalls = 4;

  std::size_t small_bytes(std::size_t i, std::size_t j) const {
    return 256 * kib * (1 + (i * 7 + j * 3 + kind_ * 5) % (11 + kind_));
  }
  void tell(ClockEvent::Kind kind, std::byte* block, std::uint32_t* ordinal) {
    const std::uint32_t id = f_.id_of(block);
    const StepPlace place = clock_.on_event(
        {.kind = kind, .block = id, .bytes = std::uint64_t{f_.space.block(id).granules} * granule_bytes});
    if (place.claimed) last_ordinal_ = place.ordinal;
    if (ordinal != nullptr && place.claimed) *ordinal = place.ordinal;
  }
  std::byte* allocate(std::size_t bytes, std::uint32_t* ordinal = nullptr) {
    std::byte* const block = f_.allocate(bytes);
    tell(ClockEvent::Kind::allocated, block, ordinal);
    after_event();
    return block;
  }
  void release(std::byte* block, std::uint32_t* ordinal = nullptr) {
    tell(ClockEvent::Kind::freed, block, ordinal);
    f_.release(block);
    after_event();
  }

  PagerFixture& f_;
  EventClock own_;
  EventClock& clock_;
  std::uint32_t phase_ = 0;
  std::uint32_t last_ordinal_ = 0;
  const std::size_t layers_;
  const unsigned kind_;
  std::vector<std::uint32_t> births_, deaths_;
  std::vector<std::byte*> blocks_;
  std::uint64_t seed_ = 1;
  std::size_t wrong_ = 0;
};

}  // namespace terrace::liballoc::test
