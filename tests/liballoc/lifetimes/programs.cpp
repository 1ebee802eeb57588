#include "tests/liballoc/lifetimes/programs.h"

#include <algorithm>
#include <utility>

namespace terrace::liballoc::test {

void Script::begin(std::string phase) {
  if (!events.empty()) ++step_;
  phase_ = std::move(phase);
  step_begin_ = events.size();
  ordinals_.clear();
  unused_.insert(unused_.end(), released_.begin(), released_.end());
  released_.clear();
}

void Script::add(ClockEvent event, bool is_noise) {
  LabelledEvent labelled{event, {}};
  if (!is_noise) labelled.truth = {phase_, step_, ordinals_[event.thread]++};
  labelled.truth.step = step_;
  events.push_back(labelled);
}

std::uint32_t Script::allocate(std::uint64_t bytes, std::uint32_t thread, bool is_noise) {
  std::uint32_t block = next_block_;
  if (unused_.empty()) {
    ++next_block_;
  } else {
    block = unused_.back();
    unused_.pop_back();
  }
  bytes_of_.resize(std::max<std::size_t>(bytes_of_.size(), block + 1));
  bytes_of_[block] = bytes;
  add({ClockEvent::Kind::allocated, 6, thread, block, bytes}, is_noise);
  return block;
}

void Script::release(std::uint32_t block, std::uint32_t thread, bool is_noise) {
  add({ClockEvent::Kind::freed, 0, thread, block, bytes_of_[block]}, is_noise);
  released_.push_back(block);
}

void Script::grow(std::uint32_t block, std::uint64_t bytes, std::uint32_t thread) {
  bytes_of_[block] = bytes;
  add({ClockEvent::Kind::grown, 0, thread, block, bytes}, false);
}

void Script::shuffle_threads() {
  std::map<std::uint32_t, std::vector<LabelledEvent>> by_thread;
  std::vector<std::uint32_t> order;
  for (std::size_t i = step_begin_; i < events.size(); ++i) {
    by_thread[events[i].event.thread].push_back(events[i]);
    order.push_back(events[i].event.thread);
  }
  std::shuffle(order.begin(), order.end(), random);
  std::map<std::uint32_t, std::size_t> next;
  for (std::size_t i = 0; i < order.size(); ++i)
    events[step_begin_ + i] = by_thread[order[i]][next[order[i]]++];
}

void Script::add_noise(std::uint32_t every, std::uint32_t thread, bool is_of_one_size) {
  std::vector<LabelledEvent> step(events.begin() + static_cast<std::ptrdiff_t>(step_begin_), events.end());
  events.resize(step_begin_);
  for (const LabelledEvent& e : step) {
    events.push_back(e);
    if (random() % every != 0) continue;
    if (!noise_blocks_.empty() && random() % 2 == 0) {
      const std::size_t which = random() % noise_blocks_.size();
      add({ClockEvent::Kind::freed, 0, thread, noise_blocks_[which], 0}, true);
      noise_blocks_.erase(noise_blocks_.begin() + static_cast<std::ptrdiff_t>(which));
    } else {
      const std::uint64_t units = is_of_one_size ? 3 : 1 + random() % 64;
      noise_blocks_.push_back(next_block_++);
      bytes_of_.resize(next_block_);
      add({ClockEvent::Kind::allocated, 6, thread, noise_blocks_.back(), (units << 20U) + (68U << 10U)},
          true);
    }
  }
}

std::vector<Layer> random_layers(std::uint64_t seed, std::size_t count) {
  std::mt19937_64 random(seed);
  std::vector<Layer> layers(count);
  for (Layer& l : layers)
    l = {(1 + random() % 64) << 18U, (1 + random() % 32) << 19U, (1 + random() % 16) << 18U};
  return layers;
}

namespace {

std::uint64_t scaled(std::uint64_t bytes, double batch) {
  return static_cast<std::uint64_t>(static_cast<double>(bytes) * batch) & ~std::uint64_t{4095};
}

}  // namespace

void train(Script& s, const std::vector<Layer>& layers, double batch, std::uint32_t thread) {
  std::vector<std::uint32_t> outputs{s.allocate(scaled(std::uint64_t{12} << 20U, batch), thread)}, gradients;
  for (const Layer& l : layers) {
    const std::uint32_t workspace = s.allocate(scaled(l.workspace, batch), thread);
    outputs.push_back(s.allocate(scaled(l.output, batch), thread));
    s.release(workspace, thread);
  }
  std::uint32_t flowing = s.allocate(scaled(layers.back().output, batch), thread);
  for (std::size_t i = layers.size(); i-- > 0;) {
    gradients.push_back(s.allocate(layers[i].weight, thread));
    const std::uint32_t next =
        s.allocate(scaled(i > 0 ? layers[i - 1].output : layers[0].workspace, batch), thread);
    s.release(flowing, thread);
    s.release(outputs[i + 1], thread);
    flowing = next;
  }
  s.release(flowing, thread);
  s.release(outputs[0], thread);
  for (const std::uint32_t g : gradients) s.release(g, thread);
}

void forward_only(Script& s, const std::vector<Layer>& layers, std::uint32_t thread) {
  std::uint32_t hidden = s.allocate(std::uint64_t{12} << 20U, thread);
  for (const Layer& l : layers) {
    const std::uint32_t workspace = s.allocate(l.workspace, thread);
    const std::uint32_t output = s.allocate(l.output, thread);
    s.release(workspace, thread);
    s.release(hidden, thread);
    hidden = output;
  }
  s.release(hidden, thread);
}

}  // namespace terrace::liballoc::test
