// An optimizer as a user opens it, and a small model whose numbers follow from a seed.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "liballoc/gpu/optimizer/update/rule.h"
#include "liballoc/gpu/terrace_optimizer.h"
#include "tests/units.h"

namespace terrace::liballoc::optimizer::test {

using terrace::tests::kib;
using terrace::tests::mib;

inline terrace_optimizer_rule adam_or_sgd(int kind, unsigned flags) {
  return {.size = sizeof(terrace_optimizer_rule),
          .kind = kind,
          .flags = flags,
          .lr = 1e-3,
          .weight_decay = 0.01,
          .beta1 = (flags & 32) != 0 ? 0.4 : 0.9,  // both of lerp's ends
          .beta2 = 0.999,
          .eps = 1e-8,
          .momentum = 0.9,
          .dampening = 0.1};
}

inline Rule rule_of(const terrace_optimizer_rule& from, std::uint64_t step) {
  Rule rule;
  std::string reason;
  REQUIRE(make_rule(from, step, &rule, &reason) == 0);
  return rule;
}

struct Options {
  std::uint64_t nvme_bytes = 0;
  const char* directory = TERRACE_TEST_POOL_DIR;
  std::uint64_t staging_bytes = 16 * mib;
  unsigned threads = 2;
  std::uint64_t writes_total_bytes = 0;
  const char* fault = nullptr;
};

class Opened {
 public:
  explicit Opened(const Options& options = {}) {
    const int error = open(options, &optimizer_, &reason);
    INFO(reason);
    REQUIRE(error == 0);
  }
  ~Opened() { terrace_optimizer_close(optimizer_); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  static int open(const Options& options, terrace_optimizer** out, std::string* why) {
    const terrace_optimizer_config config{.size = sizeof(terrace_optimizer_config),
                                          .nvme_bytes = options.nvme_bytes,
                                          .nvme_directory = options.directory,
                                          .staging_bytes = options.staging_bytes,
                                          .threads = options.threads,
                                          .writes_per_day_bytes = 0,
                                          .writes_total_bytes = options.writes_total_bytes,
                                          .fault = options.fault};
    char text[512] = "";
    const int error = terrace_optimizer_open(&config, out, text, sizeof(text));
    *why = text;
    return error;
  }

  terrace_optimizer* get() const { return optimizer_; }
  int add(std::uint64_t elements, unsigned planes, std::uint64_t* id) {
    return told([&](char* to) { return terrace_optimizer_add(optimizer_, elements, planes, id, to, size); });
  }
  int step(std::vector<terrace_optimizer_update>& updates, const terrace_optimizer_flow* flow = nullptr) {
    return told([&](char* to) {
      return terrace_optimizer_step(optimizer_, updates.data(), updates.size(), flow, &failed, to, size);
    });
  }
  int read(std::uint64_t id, float* const* planes) {
    return told([&](char* to) { return terrace_optimizer_read(optimizer_, id, planes, to, size); });
  }
  int write(std::uint64_t id, const float* const* planes) {
    return told([&](char* to) { return terrace_optimizer_write(optimizer_, id, planes, to, size); });
  }
  std::string warning() const { return terrace_optimizer_warning(optimizer_); }
  terrace_optimizer_statistics statistics() const {
    terrace_optimizer_statistics out{};
    out.size = sizeof(out);
    REQUIRE(terrace_optimizer_get_statistics(optimizer_, &out) == 0);
    return out;
  }

  std::string reason;  // of the last call
  std::size_t failed = 999;

 private:
  static constexpr std::size_t size = 512;
  template <class Call>
  int told(const Call& call) {
    char text[size] = "";
    const int result = call(text);
    reason = text;
    return result;
  }
  terrace_optimizer* optimizer_ = nullptr;
};

// Parameters in float of several blocks, of parts of one, and of less than a vector.
class Model {
 public:
  explicit Model(Opened& optimizer, std::vector<std::size_t> sizes = {700'000, 5, 300'001, 64})
      : optimizer_(optimizer), rule_(adam_or_sgd(TERRACE_OPTIMIZER_ADAM, TERRACE_OPTIMIZER_LERP)) {
    std::mt19937 random(5);
    for (const std::size_t elements : sizes) {
      parameters.emplace_back(elements);
      for (float& value : parameters.back()) value = static_cast<float>(random() % 2000) / 1000 - 1;
      ids.push_back(0);
      REQUIRE(optimizer.add(elements, 2, &ids.back()) == 0);
    }
  }

  std::vector<terrace_optimizer_update> updates() {
    ++steps_;
    gradients_.clear();
    std::vector<terrace_optimizer_update> out;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      std::vector<float> gradient(parameters[i].size());
      for (std::size_t k = 0; k < gradient.size(); ++k)
        gradient[k] = static_cast<float>((k * 37 + steps_ * 101 + i) % 1000) / 500 - 1;
      gradients_.push_back(std::move(gradient));
      out.push_back({.size = sizeof(terrace_optimizer_update),
                     .id = ids[i],
                     .parameter = parameters[i].data(),
                     .gradient = gradients_[i].data(),
                     .parameter_type = TERRACE_OPTIMIZER_F32,
                     .gradient_type = TERRACE_OPTIMIZER_F32,
                     .step = steps_,
                     .rule = &rule_,
                     .done_elements = 77});
    }
    return out;
  }
  int step() {
    last = updates();
    return optimizer_.step(last);
  }
  // exp_avg and exp_avg_sq of a parameter.
  std::vector<std::vector<float>> states(std::size_t i) {
    std::vector<std::vector<float>> out(2, std::vector<float>(parameters[i].size()));
    float* planes[] = {out[0].data(), out[1].data()};
    REQUIRE(optimizer_.read(ids[i], planes) == 0);
    return out;
  }

  std::vector<std::vector<float>> parameters;
  std::vector<std::uint64_t> ids;
  std::vector<terrace_optimizer_update> last;

 private:
  Opened& optimizer_;
  terrace_optimizer_rule rule_;
  std::vector<std::vector<float>> gradients_;
  std::uint64_t steps_ = 0;
};

}  // namespace terrace::liballoc::optimizer::test
