// Steps through the C API: the same results wherever states are and however many threads compute, within
// bounded memory; callbacks; what is refused.
#include <xmmintrin.h>

#include <cerrno>
#include <cmath>

#include "tests/liballoc/gpu/optimizer/optimizer_fixture.h"

using namespace terrace::liballoc::optimizer::test;

namespace {

struct Outcome {
  std::vector<std::vector<float>> parameters, states;
  bool operator==(const Outcome&) const = default;
};

Outcome after_three_steps(const Options& options) {
  Opened optimizer(options);
  Model model(optimizer);
  for (int i = 0; i < 3; ++i) REQUIRE(model.step() == 0);
  for (const auto& update : model.last) CHECK(update.done_elements == model.parameters[update.id - 1].size());
  return {model.parameters, model.states(0)};
}

// What the callbacks were told, and the arrays that ready() hands out.
struct Told {
  explicit Told(std::vector<terrace_optimizer_update>& given) : updates(given) {
    for (auto& update : updates) {
      arrays.emplace_back(update.parameter, update.gradient);
      update.parameter = nullptr;
      update.gradient = nullptr;
    }
  }
  static int ready(void* context, std::size_t index) {
    Told& self = *static_cast<Told*>(context);
    if (index == self.refused) return EPERM;
    self.words += "r" + std::to_string(index);
    self.updates[index].parameter = self.arrays[index].first;
    self.updates[index].gradient = self.arrays[index].second;
    return 0;
  }
  static void done(void* context, std::size_t index) {
    static_cast<Told*>(context)->words += "d" + std::to_string(index);
  }
  terrace_optimizer_flow flow() { return {sizeof(terrace_optimizer_flow), this, ready, done}; }

  std::vector<terrace_optimizer_update>& updates;
  std::vector<std::pair<void*, const void*>> arrays;
  std::string words;
  std::size_t refused = 999;
};

}  // namespace

TEST_CASE("Results are the same on every tier and number of threads", "[optimizer]") {
  const Outcome expected = after_three_steps({.threads = 1});
  CHECK(after_three_steps({.threads = 2}) == expected);
  CHECK(after_three_steps({.threads = 5}) == expected);
  CHECK(after_three_steps({.nvme_bytes = 64 * mib, .threads = 1}) == expected);
  CHECK(after_three_steps({.nvme_bytes = 64 * mib, .staging_bytes = 64 * mib, .threads = 3}) == expected);
}

TEST_CASE("A thread that flushes denormals gets the same results", "[optimizer]") {
  const Outcome expected = after_three_steps({.threads = 1});
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);
  const Outcome flushing = after_three_steps({.threads = 1});
  const unsigned kept = _mm_getcsr();
  _mm_setcsr(before);
  CHECK(flushing == expected);
  CHECK((kept & 0x8040) == 0x8040);
}

TEST_CASE("States on the drive take no host memory but the staging", "[optimizer]") {
  Opened optimizer({.nvme_bytes = 128 * mib, .staging_bytes = 16 * mib});
  Model model(optimizer, {4'000'000});
  REQUIRE(model.step() == 0);
  REQUIRE(model.step() == 0);
  const auto counts = optimizer.statistics();
  CHECK(counts.dram_bytes == 0);
  CHECK(counts.staging_bytes == 16 * mib);
  CHECK(counts.nvme_bytes == 32 * mib);
  CHECK(counts.nvme_written_bytes == 2 * 32 * mib);
  CHECK(counts.nvme_read_bytes == 32 * mib);  // what was never written is not read
}

TEST_CASE("States are read and written", "[optimizer]") {
  for (const std::uint64_t nvme_bytes : {0 * mib, 64 * mib}) {
    Opened optimizer({.nvme_bytes = nvme_bytes});
    Model model(optimizer);
    REQUIRE(model.step() == 0);
    std::vector<float> first(300'001, 0.5F), second(300'001, 0.25F);
    const auto neighbour = model.states(1);
    const float* const planes[] = {first.data(), second.data()};
    REQUIRE(optimizer.write(model.ids[2], planes) == 0);
    CHECK(model.states(2) == std::vector{first, second});
    CHECK(model.states(1) == neighbour);
    const float* const one[] = {nullptr, first.data()};
    REQUIRE(optimizer.write(model.ids[2], one) == 0);
    CHECK(model.states(2) == std::vector{first, first});
  }
}

TEST_CASE("Callbacks come in order and before and behind every access", "[optimizer]") {
  for (const std::uint64_t nvme_bytes : {0 * mib, 64 * mib}) {
    Opened optimizer({.nvme_bytes = nvme_bytes}), plain;
    Model model(optimizer), expected(plain);
    auto updates = model.updates();
    Told told(updates);
    const auto flow = told.flow();
    REQUIRE(optimizer.step(updates, &flow) == 0);
    CHECK(told.words == "r0r1r2d0d1r3d2d3");
    REQUIRE(expected.step() == 0);
    CHECK(model.parameters == expected.parameters);
  }
}

TEST_CASE("What a callback refuses ends the step there", "[optimizer]") {
  Opened optimizer;
  Model model(optimizer);
  const auto before = model.parameters;
  auto updates = model.updates();
  Told told(updates);
  told.refused = 3;
  const auto flow = told.flow();
  CHECK(optimizer.step(updates, &flow) == -EPERM);
  CHECK(updates[0].done_elements == 700'000);
  CHECK(updates[3].done_elements == 0);
  CHECK(model.parameters[3] == before[3]);
}

TEST_CASE("A step of nothing is one", "[optimizer]") {
  Opened optimizer;
  std::vector<terrace_optimizer_update> none;
  CHECK(optimizer.step(none) == 0);
}

TEST_CASE("A malformed step does nothing and says why", "[optimizer]") {
  Opened optimizer;
  Model model(optimizer);
  const auto before = model.parameters;
  const auto refused = [&](auto change, int error, const std::string& words) {
    auto updates = model.updates();
    terrace_optimizer_rule rule = *updates[2].rule;
    updates[2].rule = &rule;
    change(updates[2], rule);
    CHECK(optimizer.step(updates) == -error);
    CHECK(optimizer.failed == 2);
    CHECK_THAT(optimizer.reason, Catch::Contains(words));
    CHECK(model.parameters == before);
  };
  using Change = terrace_optimizer_update;
  using Terms = terrace_optimizer_rule;
  refused([](Change& u, Terms&) { u.id = 9; }, ENOENT, "no parameter 9");
  refused([](Change& u, Terms&) { u.id = 1; }, EINVAL, "twice");
  refused([](Change& u, Terms&) { u.gradient = nullptr; }, EINVAL, "NULL");
  refused([](Change& u, Terms&) { u.parameter_type = 3; }, EINVAL, "terrace_optimizer_type");
  refused([](Change& u, Terms&) { u.parameter_type = TERRACE_OPTIMIZER_BF16; }, EINVAL, "need 3");
  refused([](Change& u, Terms&) { u.step = 0; }, EINVAL, "step is 0");
  refused([](Change&, Terms& r) { r.kind = 2; }, EINVAL, "kind is 2");
  refused([](Change&, Terms& r) { r.flags |= TERRACE_OPTIMIZER_AMSGRAD; }, EINVAL, "need 3");
  refused([](Change&, Terms& r) { r.beta1 = 1; }, EINVAL, "beta1 is 1");
  refused([](Change&, Terms& r) { r.beta2 = NAN; }, EINVAL, "beta2");
  refused([](Change&, Terms& r) { r.eps = -1; }, EINVAL, "eps");
  refused([](Change&, Terms& r) { r.lr = INFINITY; }, EINVAL, "lr");
  refused([](Change&, Terms& r) { r.weight_decay = -0.5; }, EINVAL, "weight_decay");
}

TEST_CASE("What cannot be opened or added is said", "[optimizer]") {
  terrace_optimizer* none = nullptr;
  std::string reason;
  CHECK(Opened::open({.threads = 257}, &none, &reason) == -EINVAL);
  CHECK_THAT(reason, Catch::Contains("256"));
  CHECK(Opened::open({.staging_bytes = mib}, &none, &reason) == -EINVAL);
  CHECK_THAT(reason, Catch::Contains("16 MiB"));
  CHECK(Opened::open({.nvme_bytes = mib, .directory = "/nowhere"}, &none, &reason) == -ENOENT);
  CHECK_THAT(reason, Catch::Contains("/nowhere"));
  CHECK(Opened::open({.nvme_bytes = mib, .fault = "nonsense"}, &none, &reason) == -EINVAL);
  CHECK(none == nullptr);
  Opened optimizer;
  std::uint64_t id = 0;
  CHECK(optimizer.add(0, 2, &id) == -EINVAL);
  CHECK(optimizer.add(8, 0, &id) == -EINVAL);
  CHECK(optimizer.add(8, 5, &id) == -EINVAL);
  CHECK(id == 0);
}
