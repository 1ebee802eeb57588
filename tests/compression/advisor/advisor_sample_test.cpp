// Sampling: how near a sample comes, what it admits not to know, how little it reads; and the sizes predicted
// from it.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <vector>

#include "compression/advisor/fraction.h"
#include "compression/advisor/sample.h"
#include "compression/compressor.h"
#include "tools/bench/activations/activations.h"

namespace terrace::compression {
namespace {

using Bytes = std::vector<std::byte>;

std::span<const std::byte> bytes_of(const std::vector<float>& content) {
  return std::as_bytes(std::span(content));
}

// Channels of 56 x 56 that differ in their share of zeros, and zeros in runs.
Bytes activations(ElementType type, double sparsity, std::size_t elements) {
  Bytes content(elements * width_of(type));
  bench::generate_activations({.element = type, .sparsity = sparsity, .height = 56, .width = 56}, content);
  return content;
}

double sparsity_of(const Bytes& content) {
  return bench::zero_statistics(content, sizeof(float), 56).sparsity;
}

TEST_CASE("SampleErrorIsWhatItSaysOnClusteredData") {
  const double wanted = GENERATE(0.2, 0.5, 0.62, 0.9);
  const Bytes content = activations(ElementType::f32, wanted, 4 << 20);
  const double truth = sparsity_of(content);
  constexpr int seeds = 200;
  double squared = 0, claimed = 0;
  int within_three = 0;
  for (int seed = 0; seed < seeds; ++seed) {
    const Sample sample = sample_content(ElementType::f32, content, seed);
    const double error = sample.sparsity - truth;
    squared += error * error / seeds;
    claimed += sample.standard_error * sample.standard_error / seeds;
    within_three += std::abs(error) <= 3 * sample.standard_error;
    CHECK(sample.standard_error < 0.02);
  }
  CHECK(std::sqrt(squared) < 1.25 * std::sqrt(claimed));
  CHECK(std::sqrt(squared) > 0.6 * std::sqrt(claimed));
  CHECK(within_three >= 194);
}

TEST_CASE("SampleIsStratifiedOverTheTensor") {
  // A tensor that is zero in its first half: independent places would be off by 2.2 points, strata are by
  // none.
  std::vector<float> content(4 << 20, 1.0F);
  std::fill(content.begin(), content.begin() + (2 << 20), 0.0F);
  for (int seed = 0; seed < 50; ++seed) {
    const Sample sample = sample_content(ElementType::f32, bytes_of(content), seed);
    CHECK(std::abs(sample.sparsity - 0.5) < 0.002);
    CHECK(sample.standard_error < 0.005);
  }
}

TEST_CASE("SampleReadsUnderOnePercent") {
  constexpr std::size_t length = std::size_t{256} << 20;
  void* map = mmap(nullptr, length, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(map != MAP_FAILED);
  madvise(map, length, MADV_NOHUGEPAGE);
  const Sample sample = sample_content(ElementType::f64, {static_cast<const std::byte*>(map), length}, 7);
  std::vector<unsigned char> resident(length / 4096);
  REQUIRE(mincore(map, length, resident.data()) == 0);
  const auto touched =
      std::count_if(resident.begin(), resident.end(), [](unsigned char page) { return page & 1; });
  munmap(map, length);
  CHECK(sample.elements == sample_most * sample_word);
  CHECK(touched > 0);
  CHECK(touched <= static_cast<long>(2 * sample_most));
  for (const std::size_t elements : {1 << 16, 100'000, 1 << 20}) {
    const std::vector<float> content(elements);
    CHECK(sample_content(ElementType::f32, bytes_of(content), 1).elements * 100 < elements);
  }
}

TEST_CASE("SmallTensorsAreSampledInThirtyTwoPlacesFromAThirtySecond") {
  for (const std::size_t elements : {2048, 5000, 12288, 16384, 30'000, 65535}) {
    const std::vector<float> content(elements);
    const Sample sample = sample_content(ElementType::f32, bytes_of(content), 1);
    CHECK(sample.elements * sample_share_small <= elements);
    if (elements >= 16384) CHECK(sample.elements == 16 * sample_least);
  }
}

TEST_CASE("SampleOfNothingKnowsNothing") {
  const std::vector<float> few(16 * sample_share - 1, 0.0F);
  CHECK_FALSE(sample_content(ElementType::f32, {}, 1).known());
  CHECK_FALSE(sample_content(ElementType::f32, bytes_of(few), 1).known());
  CHECK_FALSE(sample_from_counts(ElementType::f32, 0, 0).known());
  CHECK(sample_from_counts(ElementType::f32, 10, 99).sparsity == 0);
  CHECK(combine({}, sample_from_counts(ElementType::f32, 10, 5)).sparsity == 0.5);
}

TEST_CASE("SampleOfUniformContentStillAdmitsAnError") {
  const std::vector<float> zeros(1 << 20, 0.0F), ones(1 << 20, 1.0F);
  const Sample of_zeros = sample_content(ElementType::f32, bytes_of(zeros), 1);
  const Sample of_ones = sample_content(ElementType::f32, bytes_of(ones), 1);
  CHECK(of_zeros.sparsity == 1);
  CHECK(of_zeros.zero_words == 1);
  CHECK(of_zeros.standard_error > 0);
  CHECK(of_ones.sparsity == 0);
  CHECK(of_ones.full_words == 1);
  CHECK(of_ones.standard_error > 0);
}

TEST_CASE("SampleTestsBitsNotValues") {
  const std::vector<float> negative_zeros(1 << 20, -0.0F);
  const Sample sample = sample_content(ElementType::f32, bytes_of(negative_zeros), 1);
  CHECK(sample.sparsity == 0);
  CHECK(sample.value_bits == 1);  // the sign; no exponent differs, all mantissa bits are zero
}

double fraction_when_compressed(Codec codec, ElementType type, const Bytes& content) {
  const auto workspace = std::make_unique<Workspace>();
  std::vector<std::byte> frame(frame_bound(content.size()));
  const Compressed result =
      compress(content, frame, {.codec = codec, .element = type, .alignment_log2 = 4}, *workspace);
  REQUIRE(result.error == FrameError::none);
  return static_cast<double>(result.bytes) / static_cast<double>(content.size());
}

void check_fractions(ElementType type, double sparsity) {
  const Bytes content = activations(type, sparsity, 2 << 20);
  const std::uint64_t bytes = content.size();
  const Sample sample = sample_content(type, content, 1);
  for (const Codec codec : {Codec::zvc, Codec::zvc_exp, Codec::rle, Codec::csr8}) {
    INFO(name_of(codec) << " of " << name_of(type) << ", sparsity " << sample.sparsity);
    const double real = fraction_when_compressed(codec, type, content);
    const double error = 3 * sample.standard_error + 0.02 + 0.04 * real;
    CHECK(predicted_fraction(codec, type, sample, bytes) == Approx(real).margin(error));
  }
}

TEST_CASE("FractionsArePredictedForEveryCodec") {
  const double sparsity = GENERATE(0.0, 0.3, 0.62, 0.8, 0.95, 1.0);
  check_fractions(ElementType::f32, sparsity);
  check_fractions(ElementType::bf16, sparsity);
  check_fractions(ElementType::f16, sparsity);
}

TEST_CASE("FrameSizeTellsSparsity") {
  const Bytes content = activations(ElementType::f32, 0.7, 2 << 20);
  const std::uint64_t bytes = content.size();
  const Sample sample = sample_content(ElementType::f32, content, 1);
  for (const Codec codec : {Codec::zvc, Codec::csr8}) {
    const double fraction = fraction_when_compressed(codec, ElementType::f32, content);
    const auto frame_bytes = static_cast<std::uint64_t>(fraction * static_cast<double>(bytes));
    CHECK(sparsity_of_frame(codec, ElementType::f32, sample, bytes, frame_bytes) ==
          Approx(sparsity_of(content)).margin(0.002));
  }
  CHECK(sparsity_of_frame(Codec::rle, ElementType::f32, sample, bytes, bytes / 2) < 0);
  CHECK(sparsity_of_frame(Codec::zvc, ElementType::f32, sample, bytes, bytes + 1000) < 0);
  CHECK(sparsity_of_frame(Codec::zvc, ElementType::f32, sample, 0, 0) < 0);
}

TEST_CASE("FractionOfRawIsOneAndOfNothingIsFinite") {
  const Sample unknown;
  for (const Codec codec : predictable_codecs)
    for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{4}, UINT64_MAX}) {
      const double fraction = predicted_fraction(codec, ElementType::u8, unknown, bytes);
      CHECK(fraction >= 1);
      CHECK(std::isfinite(fraction));
    }
  CHECK(predicted_fraction(Codec::raw, ElementType::u8, unknown, 1) == 1);
}

}  // namespace
}  // namespace terrace::compression
