// Programs made up for the event clock: what they allocate and free, and which event of which step each event
// is.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "liballoc/lifetimes/repeats/clock_event.h"

namespace terrace::liballoc::test {

inline constexpr std::uint64_t mib = std::uint64_t{1} << 20U;

// Where an event truly belongs.
struct Truth {
  std::string phase;          // empty: warm-up, noise, or a step like no other
  std::uint32_t step = 0;     // of all, from 0
  std::uint32_t ordinal = 0;  // among the step's events of its thread, in the thread's own order
};

struct LabelledEvent {
  ClockEvent event;
  Truth truth;
};

class Script {
 public:
  explicit Script(std::uint64_t seed = 1) : random(seed) {}

  // Everything until the next begin() is part of this step.
  void begin(std::string phase);
  std::uint32_t allocate(std::uint64_t bytes, std::uint32_t thread = 0, bool is_noise = false);
  void release(std::uint32_t block, std::uint32_t thread = 0, bool is_noise = false);
  void grow(std::uint32_t block, std::uint64_t bytes, std::uint32_t thread = 0);
  // Mixes the events of the step so far by thread: each thread keeps its order.
  void shuffle_threads();
  // After about every `every`th event of the step an allocation or a free of another thread, which is no part
  // of it.
  void add_noise(std::uint32_t every, std::uint32_t thread, bool is_of_one_size);

  std::vector<LabelledEvent> events;
  std::mt19937_64 random;

 private:
  void add(ClockEvent event, bool is_noise);

  std::string phase_;
  std::uint32_t step_ = 0;
  std::size_t step_begin_ = 0;
  std::map<std::uint32_t, std::uint32_t> ordinals_;  // by thread
  // Ids of blocks. What a step releases is used again from the next step on: within a step that is mixed, a
  // thread could free what another has not allocated yet.
  std::vector<std::uint32_t> unused_, released_;
  std::uint32_t next_block_ = 1;
  std::vector<std::uint32_t> noise_blocks_;
  std::vector<std::uint64_t> bytes_of_;
};

// Layers of a network, each with the bytes of its output and of what it needs meanwhile.
struct Layer {
  std::uint64_t output = 0;
  std::uint64_t workspace = 0;
  std::uint64_t weight = 0;
};
std::vector<Layer> random_layers(std::uint64_t seed, std::size_t count);

// One step each. Outputs stay until the way back uses them; gradients until update(), which returns them all.
void train(Script& script, const std::vector<Layer>& layers, double batch = 1, std::uint32_t thread = 0);
void forward_only(Script& script, const std::vector<Layer>& layers, std::uint32_t thread = 0);

}  // namespace terrace::liballoc::test
