// Activations of a neural network made up from a seed: what the codecs are tested, tuned and measured with.
//
// A tensor is NCHW. What compressing it costs and gains hangs on where its zeros lie, so this is modelled:
// each channel has a bias (some are almost dead, some almost full), neighbours in a plane resemble each
// other, and ReLU cuts at the quantile that gives the wanted share of zeros. Zeros then come in runs of 5 to
// 8, as in trained networks (EBPC, Cavigelli et al. 2019, by its published ratios of RLE and ZVC);
// independent zeros would come in runs of 2.6 at 62%, which flatters a mask and wrongs everything that looks
// for repetition.
//
// The same specification gives the same bytes, on every machine that computes floats by IEEE 754.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "compression/base/element.h"

namespace terrace::bench {

enum class ZeroPattern : std::uint8_t {
  clustered,    // channel bias and 3-wide blur
  independent,  // every element for itself
};

enum class ValueLaw : std::uint8_t {
  half_normal,   // behind a batch normalisation and ReLU
  half_laplace,  // longer tail, more small values
  relu6,         // half-normal of deviation 3, cut at 6: some 5% of the values are exactly 6 (MobileNet)
  normal,        // both signs: gradients, weights, what GELU lets through; integers get its magnitude
};

struct ActivationSpec {
  compression::ElementType element = compression::ElementType::f32;
  double sparsity = 0.62;  // 0 to 1; met to within one element in each image
  ZeroPattern zeros = ZeroPattern::clustered;
  ValueLaw values = ValueLaw::half_normal;
  bool through_bf16 = false;    // rounded to bf16 before anything else: the low half of an f32 is zero
  double dead_channels = 0;     // share of channels that are zero throughout; at most `sparsity`
  std::uint32_t channels = 64;  // of an image; the channels' biases are the same in all images
  std::uint32_t height = 112;
  std::uint32_t width = 112;  // innermost
  std::uint64_t seed = 1;
};

// Fills `out`, whose size is a multiple of the element's width, with as many images as it takes; the last one
// may end anywhere. An element that is not to be zero never is: what rounds to zero becomes the smallest
// number of its type. Allocates 4 bytes for each element of an image.
void generate_activations(const ActivationSpec& spec, std::span<std::byte> out);

// Dense data of both signs, which no codec should spend time on.
ActivationSpec dense_activations(compression::ElementType element, std::uint64_t seed = 1);

// How zeros lie along the innermost axis; runs end with a row of `row_elements`.
struct ZeroStatistics {
  double sparsity = 0;
  double mean_zero_run = 0;  // 0 where there are no zeros
};
ZeroStatistics zero_statistics(std::span<const std::byte> data, std::size_t element_bytes,
                               std::size_t row_elements);

// `value` as an element of its type: rounded to the nearest, ties to even, denormals kept. f16, bf16 and
// f8e5m2 overflow to infinity, f8e4m3 to its largest number, 448. Integers are not for this.
std::uint64_t rounded_bits(compression::ElementType type, float value);

// Sparsities of whole networks, one per layer that ReLU follows.
struct NetworkProfile {
  std::string_view name;
  std::span<const float> sparsity;
};
std::span<const NetworkProfile> network_profiles();

// Shares of zeros in AlexNet's seven layers while it is trained, epochs 1 to 52 (EBPC's training log, read
// off a chart: both ends, and that nearly all the change is in the first 11 epochs). Early layers become
// denser, late ones sparser.
inline constexpr int alexnet_layers = 7;
inline constexpr int alexnet_epochs = 52;
double alexnet_sparsity(int layer, int epoch);

}  // namespace terrace::bench
