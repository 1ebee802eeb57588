// terrace-optimizer-kernels: how near the optimizers' kernels come to memory's speed.
//
// A part of `terrace bench optimizer`, which runs it. In each round STREAM's triad (McCalpin 1995) is timed
// with plain stores, where the line is read before it is written (16 bytes an element), and with stores past
// the caches (12 bytes), then AdamW by every set of kernels for every type of parameter (28 bytes); all in
// the same number of threads, on slices as the optimizer has them. Prints one line of JSON with the seconds
// of each round.
#include <immintrin.h>

#include <bit>
#include <cstdio>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "liballoc/gpu/optimizer/block.h"
#include "liballoc/gpu/optimizer/update/kernels.h"
#include "liballoc/gpu/optimizer/workers.h"
#include "tiers/mapping.h"
#include "tools/bench/measuring/measure.h"

namespace terrace::bench {
namespace {

namespace optimizer = liballoc::optimizer;
using optimizer::slice_elements;

constexpr const char* usage = R"(usage: terrace-optimizer-kernels [options]

Times the optimizers' kernels beside the speed of memory, and prints one line of JSON.

  --slices N       update so many slices of parameters, 16 at least (512)
  --threads N      with so many threads, 256 at most (1)
  --rounds N       repeat the whole so often (9))";
constexpr const char* type_names[] = {"float32", "bfloat16", "float16"};

// Zeroed memory in huge pages.
template <class T>
class Array {
 public:
  explicit Array(std::size_t count) {
    if (mapping_.map(count * sizeof(T)) != 0) throw std::bad_alloc();
    ::madvise(mapping_.data(), mapping_.bytes(), MADV_HUGEPAGE);
  }
  T* data() const { return reinterpret_cast<T*>(mapping_.data()); }

 private:
  tiers::Mapping mapping_;
};

// A parameter and its gradient: values between a thousandth and one, whose patterns are given in each type.
struct Model {
  Model(unsigned type_, std::size_t elements)
      : type(type_),
        width(type == TERRACE_OPTIMIZER_F32 ? 4 : 2),
        parameter(elements * width),
        gradient(elements * width) {
    constexpr std::uint32_t half_at_one = 0x3c00, half_step = 0x400;  // fp16's exponents come in such steps
    for (std::size_t i = 0; i < elements; ++i) {
      const auto value = 0.001F * static_cast<float>(i % 977 + 1);
      const auto bits = std::bit_cast<std::uint32_t>(value);
      const auto narrow = static_cast<std::uint16_t>(
          type == TERRACE_OPTIMIZER_BF16 ? bits >> 16 : half_at_one - half_step * (i % 10) + i % half_step);
      for (std::byte* to : {parameter.data(), gradient.data()})
        type == TERRACE_OPTIMIZER_F32 ? std::memcpy(to + 4 * i, &value, 4)
                                      : std::memcpy(to + 2 * i, &narrow, 2);
    }
  }
  unsigned type;
  std::size_t width;
  Array<std::byte> parameter, gradient;
};

struct Arrays {
  explicit Arrays(std::size_t elements)
      : models{Model(0, elements), Model(1, elements), Model(2, elements)},
        states(elements * 3),
        sum(elements) {}
  Model models[optimizer::number_types];
  Array<float> states;  // of each slice both moments and the master weights
  Array<float> sum;     // the triad's
};

double seconds_of(optimizer::Workers& workers, std::size_t slices,
                  const std::function<void(std::size_t)>& work) {
  const double begin = now_s();
  workers.run(slices, work);
  return now_s() - begin;
}

void triad(float* a, const float* b, const float* c) {
  for (std::size_t i = 0; i < slice_elements; ++i) a[i] = b[i] + 3.0F * c[i];
}

void triad_past_caches(float* a, const float* b, const float* c) {
  const __m128 scale = _mm_set1_ps(3.0F);
  for (std::size_t i = 0; i < slice_elements; i += 4)
    _mm_stream_ps(a + i, _mm_add_ps(_mm_load_ps(b + i), _mm_mul_ps(scale, _mm_load_ps(c + i))));
  _mm_sfence();
}

optimizer::Rule adamw() {
  const terrace_optimizer_rule rule{
      .size = sizeof(rule),
      .kind = TERRACE_OPTIMIZER_ADAM,
      .flags = TERRACE_OPTIMIZER_DECOUPLED | TERRACE_OPTIMIZER_LERP | TERRACE_OPTIMIZER_FUSED_SQUARE,
      .lr = 1e-3,
      .weight_decay = 0.01,
      .beta1 = 0.9,
      .beta2 = 0.999,
      .eps = 1e-8,
      .momentum = 0,
      .dampening = 0};
  optimizer::Rule out;
  std::string reason;
  optimizer::make_rule(rule, 10, &out, &reason);
  return out;
}

void update_slice(const Arrays& arrays, const optimizer::Kernels& kernels, const Model& model,
                  std::size_t slice) {
  const std::size_t at = slice * slice_elements * model.width;
  float* const planes = arrays.states.data() + slice * slice_elements * 3;
  const optimizer::Piece piece{
      .elements = slice_elements,
      .parameter = model.parameter.data() + at,
      .gradient = model.gradient.data() + at,
      .planes = {planes, planes + slice_elements, planes + 2 * slice_elements, nullptr}};
  static const optimizer::Rule rule = adamw();
  kernels.update(rule, model.type, model.type)(rule, piece);
}

void one_round(optimizer::Workers& workers, const Arrays& arrays, std::size_t slices, nlohmann::json& out) {
  const auto timed = [&](const std::string& name, const std::function<void(std::size_t)>& work) {
    out[name].push_back(seconds_of(workers, slices, work));
  };
  const auto triad_by = [&](auto* function) {
    return [&arrays, function](std::size_t i) {
      const auto of = [i](const Array<std::byte>& from) {
        return reinterpret_cast<float*>(from.data()) + i * slice_elements;
      };
      const Model& floats = arrays.models[TERRACE_OPTIMIZER_F32];
      function(arrays.sum.data() + i * slice_elements, of(floats.parameter), of(floats.gradient));
    };
  };
  timed("triad", triad_by(triad));
  timed("triad past caches", triad_by(triad_past_caches));
  for (const optimizer::Kernels* kernels : optimizer::all_kernels()) {
    if (kernels == &optimizer::scalar_kernels()) continue;
    for (const Model& model : arrays.models)
      timed(std::string(kernels->name) + " " + type_names[model.type],
            [&](std::size_t i) { update_slice(arrays, *kernels, model, i); });
  }
}

int measure(int argc, char** argv) {
  const Arguments arguments(argc, argv, {"--slices", "--threads", "--rounds"}, usage);
  const auto slices = static_cast<std::size_t>(arguments.number("--slices", 512, 16, 16384));
  optimizer::Workers workers(static_cast<unsigned>(arguments.number("--threads", 1, 1, 256)));
  const long rounds = arguments.number("--rounds", 9, 1, 1000);
  const Arrays arrays(slices * slice_elements);
  nlohmann::json seconds, warm_up;
  one_round(workers, arrays, slices, warm_up);
  for (long i = 0; i < rounds; ++i) one_round(workers, arrays, slices, seconds);
  std::puts(nlohmann::json{
      {"elements", slices * slice_elements}, {"threads", workers.threads()}, {"seconds", seconds}}
                .dump()
                .c_str());
  return 0;
}

}  // namespace
}  // namespace terrace::bench

int main(int argc, char** argv) {
  return terrace::bench::run_as_program(terrace::bench::measure, argc, argv);
}
