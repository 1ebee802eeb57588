// Periods as jobs might send them, for tests: a training step and pieces to make others of.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "liballoc/wire/period/image.h"

namespace terrace::tests {

// Builds a period event by event. What is allocated and not freed any more must have been said to be freed in
// the next period.
class PeriodMaker {
 public:
  using Object = std::size_t;  // by order of making

  Object keep(std::uint64_t bytes) {
    objects_.push_back({bytes, wire::persistent, kept_++, wire::never, {}});
    return objects_.size() - 1;
  }
  Object allocate(std::uint64_t bytes, std::uint64_t ns) {
    objects_.push_back({bytes, interval(ns), 0, wire::never, {}});
    return objects_.size() - 1;
  }
  void free(Object object, std::uint64_t ns) { objects_[object].death = interval(ns); }
  // Frees what the period before allocated as its object of that number.
  std::uint32_t free_of_last_period(std::uint64_t ns) { return interval(ns); }
  void dies_in_next(Object object, std::uint32_t death) { objects_[object].death = death; }
  // In the interval of the last event.
  void use(Object object, bool writes = false) {
    use_in(object, static_cast<std::uint32_t>(draft_.events.size()) - 1, writes);
  }
  void use_in(Object object, std::uint32_t interval, bool writes = false) {
    objects_[object].uses.push_back({interval, writes ? wire::use_writes : 0});
  }

  wire::PeriodDraft draft(std::uint64_t budget_bytes, std::string_view policy = "",
                          std::uint64_t bytes_per_second = 2'000'000'000) {
    wire::PeriodDraft d = draft_;
    std::vector<Made> sorted = objects_;
    std::stable_sort(sorted.begin(), sorted.end(), [](const Made& a, const Made& b) {
      return a.birth != b.birth ? a.birth < b.birth : a.place < b.place;
    });
    for (const Made& o : sorted) {
      d.objects.push_back({o.bytes, o.birth, o.place, o.death, static_cast<std::uint32_t>(d.uses.size()),
                           static_cast<std::uint32_t>(o.uses.size()), 0});
      d.uses.insert(d.uses.end(), o.uses.begin(), o.uses.end());
    }
    d.header.phase = 1;
    d.header.period_hash = 0xfeedbeefcafe;
    d.header.budget_bytes = budget_bytes;
    d.header.read_bytes_per_second = d.header.write_bytes_per_second = bytes_per_second;
    std::memcpy(d.header.policy.data(), policy.data(), policy.size());
    return d;
  }

 private:
  struct Made {
    std::uint64_t bytes;
    std::uint32_t birth, place, death;
    std::vector<wire::PeriodUse> uses;
  };
  wire::PeriodDraft draft_;
  std::vector<Made> objects_;
  std::uint32_t kept_ = 0;

  std::uint32_t interval(std::uint64_t ns) {
    draft_.events.push_back({ns});
    return static_cast<std::uint32_t>(draft_.events.size()) - 1;
  }
};

struct TrainingShape {
  std::uint32_t layers = 32;
  std::uint64_t activation_bytes = std::uint64_t{32} << 20;
  std::uint64_t weight_bytes = std::uint64_t{4} << 20;
  std::uint64_t layer_ns = 50'000'000;
  bool frees_gradients_in_next_step = false;
};

// Forward, each layer's activation stays; backward in the opposite order, each with a gradient. Weights
// persist and are updated at the end.
inline PeriodMaker training_step(const TrainingShape& shape = {}) {
  PeriodMaker p;
  std::vector<PeriodMaker::Object> weights, activations, gradients;
  std::vector<std::uint32_t> deaths;
  for (std::uint32_t i = 0; i < shape.layers; ++i) weights.push_back(p.keep(shape.weight_bytes));
  if (shape.frees_gradients_in_next_step)
    for (std::uint32_t i = 0; i < shape.layers; ++i) deaths.push_back(p.free_of_last_period(1000));
  for (std::uint32_t i = 0; i < shape.layers; ++i) {
    activations.push_back(p.allocate(shape.activation_bytes, shape.layer_ns));
    if (i > 0) p.use(activations[i - 1]);
    p.use(activations[i], true);
    p.use(weights[i]);
  }
  for (std::uint32_t i = shape.layers; i-- > 0;) {
    gradients.push_back(p.allocate(shape.weight_bytes, 2 * shape.layer_ns));
    p.use(activations[i]);
    p.use(weights[i]);
    p.use(gradients.back(), true);
    p.free(activations[i], 1000);
  }
  for (std::uint32_t i = 0; i < shape.layers; ++i) {
    const auto last = p.allocate(4096, 100'000);  // a moment's memory
    p.use(weights[shape.layers - 1 - i], true);
    p.use(gradients[i]);
    p.free(last, 1000);
    if (shape.frees_gradients_in_next_step)
      p.dies_in_next(gradients[i], deaths[i]);
    else
      p.free(gradients[i], 1000);
  }
  return p;
}

inline std::string image_of(const wire::PeriodDraft& draft) { return *wire::period_image(draft); }

}  // namespace terrace::tests
