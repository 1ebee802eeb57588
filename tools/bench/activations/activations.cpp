// How an image is made:
//
//   white noise ── 7 taps each way ──┐
//   white noise ── × 0.312 ──────────┼── + bias of the channel ── x
//                                    │
//   threshold t = the exact quantile of x over the image; x < t: zero
//   x ≥ t: rank of x among these, from a histogram ── inverse distribution of the wanted values ── element
//
// The taps are three 3-wide box blurs in one, on a torus, so that edges are like the middle.
// Going by rank gives any distribution of values without giving up that neighbours resemble each other. One
// pass over an image of 3 MB at a time stays in the caches: 12 to 14 ns an element were measured.
#include "tools/bench/activations/activations.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "tools/bench/activations/activation_values.h"

namespace terrace::bench {
namespace {

constexpr int taps = 7;
constexpr float tap[taps] = {1, 3, 6, 7, 6, 3, 1};  // (1 1 1) * (1 1 1) * (1 1 1)
constexpr float smooth_share = 0.95F;
constexpr float white_share = 0.312F;  // 0.95² + 0.312² = 1
constexpr float channel_deviation = 0.6F;
constexpr float dead = -8;  // a bias below all that the noise can make up for

// 1 / the deviation that the taps leave of white noise along an axis of n elements, on which they may
// overlap.
float restore(std::size_t n) {
  std::vector<float> kernel(n);
  for (std::size_t i = 0; i < taps; ++i) kernel[i % n] += tap[i];
  float squares = 0;
  for (const float k : kernel) squares += k * k;
  return 1 / std::sqrt(squares);
}

class ImageMaker {
 public:
  explicit ImageMaker(const ActivationSpec& spec)
      : spec_(spec),
        plane_(std::size_t{spec.height} * spec.width),
        noise_(plane_),
        blurred_(plane_),
        row_(spec.width + taps - 1),
        scale_(smooth_share * restore(spec.height) * restore(spec.width)) {}

  // The values before ReLU of one plane of one image.
  void make_plane(std::uint64_t image, std::uint32_t channel, float* x) {
    Random random(spec_.seed, image * spec_.channels + channel + 1);
    if (spec_.zeros == ZeroPattern::independent) {
      for (std::size_t i = 0; i < plane_; ++i) x[i] = random.normal();
      return;
    }
    for (float& v : noise_) v = random.normal();
    blur_rows();
    blur_columns(x);
    const float bias = bias_of(channel);
    for (std::size_t i = 0; i < plane_; ++i) x[i] = scale_ * x[i] + white_share * random.normal() + bias;
  }

  std::size_t plane() const { return plane_; }

 private:
  float bias_of(std::uint32_t channel) const {
    Random random(spec_.seed, ~std::uint64_t{channel});
    const double share = std::min(spec_.dead_channels, spec_.sparsity);
    // Dead channels lie evenly: channel c is one where the count of them grows.
    const bool is_dead = std::floor((channel + 1) * share) > std::floor(channel * share);
    return is_dead ? dead : channel_deviation * random.normal();
  }

  void blur_rows() {
    const std::size_t w = spec_.width;
    for (std::size_t y = 0; y < spec_.height; ++y) {
      const float* from = &noise_[y * w];
      for (std::size_t i = 0; i < row_.size(); ++i) row_[i] = from[(i + w * taps - taps / 2) % w];
      for (std::size_t i = 0; i < w; ++i) {
        float sum = 0;
        for (int k = 0; k < taps; ++k) sum += tap[k] * row_[i + static_cast<std::size_t>(k)];
        blurred_[y * w + i] = sum;
      }
    }
  }

  void blur_columns(float* out) const {
    const std::size_t w = spec_.width;
    const std::size_t h = spec_.height;
    for (std::size_t y = 0; y < h; ++y) {
      float* to = out + y * w;
      std::fill(to, to + w, 0.0F);
      for (std::size_t k = 0; k < taps; ++k) {
        const float* from = &blurred_[(y + h * taps + k - taps / 2) % h * w];
        for (std::size_t i = 0; i < w; ++i) to[i] += tap[k] * from[i];
      }
    }
  }

  const ActivationSpec& spec_;
  std::size_t plane_;
  std::vector<float> noise_;
  std::vector<float> blurred_;
  std::vector<float> row_;
  float scale_;
};

std::size_t elements_of_an_image(const ActivationSpec& spec) {
  return std::size_t{spec.channels} * spec.height * spec.width;
}

// Channels one after the other until `x` is full.
void make_image(ImageMaker& maker, std::uint64_t image, std::span<float> x, std::vector<float>& spare) {
  std::uint32_t channel = 0;
  for (std::size_t at = 0; at < x.size(); at += maker.plane(), ++channel) {
    if (x.size() - at >= maker.plane()) {
      maker.make_plane(image, channel, &x[at]);
    } else {
      spare.resize(maker.plane());
      maker.make_plane(image, channel, spare.data());
      std::copy_n(spare.begin(), x.size() - at, x.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
}

bool is_zero(const std::byte* element, std::size_t bytes) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, element, bytes);
  return bits == 0;
}

}  // namespace

void generate_activations(const ActivationSpec& spec, std::span<std::byte> out) {
  const std::size_t width = compression::width_of(spec.element);
  const std::size_t total = out.size() / width;
  const std::size_t image_elements = std::min(total, elements_of_an_image(spec));
  if (image_elements == 0) return;
  ImageMaker maker(spec);
  const auto ranks = std::make_unique<RankMap>();
  const ElementWriter writer(spec);
  std::vector<float> image(image_elements);
  std::vector<float> spare;
  std::uint64_t number = 0;
  for (std::size_t at = 0; at < total; at += image_elements, ++number) {
    const std::span<float> x(image.data(), std::min(image_elements, total - at));
    make_image(maker, number, x, spare);
    const auto zeros = static_cast<std::size_t>(
        std::llround(std::clamp(spec.sparsity, 0.0, 1.0) * static_cast<double>(x.size())));
    ranks->learn(x, zeros);
    writer.write(x, *ranks, number, out.data() + at * width);
  }
}

ActivationSpec dense_activations(compression::ElementType element, std::uint64_t seed) {
  ActivationSpec spec;
  spec.element = element;
  spec.sparsity = 0;
  spec.values = ValueLaw::normal;
  spec.seed = seed;
  return spec;
}

ZeroStatistics zero_statistics(std::span<const std::byte> data, std::size_t element_bytes,
                               std::size_t row_elements) {
  const std::size_t n = data.size() / element_bytes;
  std::size_t zeros = 0;
  std::size_t runs = 0;
  bool in_run = false;
  for (std::size_t i = 0; i < n; ++i) {
    if (row_elements != 0 && i % row_elements == 0) in_run = false;
    const bool zero = is_zero(data.data() + i * element_bytes, element_bytes);
    runs += zero && !in_run ? 1 : 0;
    zeros += zero ? 1 : 0;
    in_run = zero;
  }
  ZeroStatistics statistics;
  if (n != 0) statistics.sparsity = static_cast<double>(zeros) / static_cast<double>(n);
  if (runs != 0) statistics.mean_zero_run = static_cast<double>(zeros) / static_cast<double>(runs);
  return statistics;
}

}  // namespace terrace::bench
