// Nothing here is timed. The table's first three codecs write a mask or run lengths and then values, so each
// has a limit that follows from sparsity and clustering alone; zvc's does not even depend on where the zeros
// lie, until whole words of the mask are empty (95% and more).
#include "tools/bench/compression/ratios.h"

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "compression/compressor.h"
#include "compression/external_codecs.h"
#include "tools/bench/activations/activations.h"
#include "tools/bench/compression/speed.h"

namespace terrace::bench {
namespace {

using compression::Codec;
using compression::ElementType;
using Json = nlohmann::ordered_json;

constexpr ElementType types[] = {ElementType::f8e4m3, ElementType::f16, ElementType::f32, ElementType::f64};
constexpr double sparsities[] = {0, .1, .2, .3, .4, .5, .6, .7, .8, .9, .95, .98};
constexpr Codec codecs[] = {Codec::zvc, Codec::zvc_exp, Codec::rle, Codec::csr8, Codec::lz4, Codec::zstd};

// Room for one tensor, its frame and what comes out of it.
class Trial {
 public:
  explicit Trial(std::size_t bytes)
      : content_(bytes), frame_(compression::frame_bound(bytes)), result_(bytes) {}

  void fill(const ActivationSpec& spec) { generate_activations(spec, content_); }
  std::span<const std::byte> content() const { return content_; }

  double ratio(Codec codec, ElementType element) {
    const auto made = compression::compress(content_, frame_, {.codec = codec, .element = element},
                                            *workspace_, compression::all_codecs);
    std::fill(result_.begin(), result_.end(), std::byte{0xA5});
    const auto error = compression::decompress(std::span(frame_).first(made.bytes), result_, *workspace_,
                                               compression::all_codecs);
    if (made.error != compression::FrameError::none || error != compression::FrameError::none) {
      std::fprintf(stderr, "bench: %s of %s failed\n", std::string(compression::name_of(codec)).c_str(),
                   std::string(compression::name_of(element)).c_str());
      std::exit(1);
    }
    require_equal(result_, content_, std::string(compression::name_of(codec)));
    return static_cast<double>(content_.size()) / static_cast<double>(made.bytes);
  }

 private:
  std::vector<std::byte> content_;
  std::vector<std::byte> frame_;
  std::vector<std::byte> result_;
  std::unique_ptr<compression::Workspace> workspace_ = std::make_unique<compression::Workspace>();
};

double ideal(double sparsity, ElementType element) {
  return 1 / ((1 - sparsity) + 1 / (8.0 * static_cast<double>(compression::width_of(element))));
}

Json row_for(Trial& trial, ActivationSpec spec) {
  trial.fill(spec);
  const double limit =
      ideal(zero_statistics(trial.content(), compression::width_of(spec.element), spec.width).sparsity,
            spec.element);
  Json row = {{"element", compression::name_of(spec.element)},
              {"sparsity", spec.sparsity},
              {"mask_and_values", limit}};
  for (const Codec codec : codecs)
    row["ratio"][std::string(compression::name_of(codec))] = trial.ratio(codec, spec.element);
  row["zvc_to_mask_and_values"] = row["ratio"]["zvc"].get<double>() / limit;
  spec.zeros = ZeroPattern::independent;
  trial.fill(spec);
  row["zvc_to_mask_and_values_independent_zeros"] = trial.ratio(Codec::zvc, spec.element) / limit;
  return row;
}

}  // namespace

Json measure_ratios(std::size_t tensor_bytes) {
  Trial trial(tensor_bytes);
  Json rows;
  for (const ElementType type : types) {
    for (const double sparsity : sparsities) {
      ActivationSpec spec;
      spec.element = type;
      spec.sparsity = sparsity;
      rows.push_back(row_for(trial, spec));
    }
  }
  return rows;
}

Json measure_exponent_ratios(std::size_t tensor_bytes) {
  Trial trial(tensor_bytes);
  const std::pair<const char*, ActivationSpec> kinds[] = {
      {"f32", {}},
      {"bf16", {.element = ElementType::bf16}},
      {"f16", {.element = ElementType::f16}},
      {"f32 rounded to bf16", {.through_bf16 = true}},
      {"f32 half-Laplace", {.values = ValueLaw::half_laplace}},
      {"f32 ReLU6", {.values = ValueLaw::relu6}},
      {"f32, a quarter of the channels dead", {.dead_channels = 0.25}},
      {"f8e4m3", {.element = ElementType::f8e4m3}},
  };
  Json rows;
  for (const auto& [name, spec] : kinds) {
    trial.fill(spec);
    rows.push_back({{"name", name},
                    {"zvc", trial.ratio(Codec::zvc, spec.element)},
                    {"zvc_exp", trial.ratio(Codec::zvc_exp, spec.element)},
                    {"zstd", trial.ratio(Codec::zstd, spec.element)}});
  }
  return rows;
}

}  // namespace terrace::bench
