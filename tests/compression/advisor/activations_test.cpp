// The generator of activations keeps what it promises: otherwise every figure measured with it means
// something else.
#include "tools/bench/activations/activations.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <set>

#include "compression/base/element.h"

namespace terrace::bench {
namespace {

using compression::ElementType;

std::vector<std::byte> generated(const ActivationSpec& spec, std::size_t elements) {
  std::vector<std::byte> data(elements * compression::width_of(spec.element));
  generate_activations(spec, data);
  return data;
}

ActivationSpec small_spec() {
  ActivationSpec spec;
  spec.channels = 16;
  spec.height = 56;
  spec.width = 56;
  return spec;
}

constexpr std::size_t small_elements = std::size_t{2} * 16 * 56 * 56;

ZeroStatistics statistics_of(const ActivationSpec& spec, std::size_t elements) {
  return zero_statistics(generated(spec, elements), compression::width_of(spec.element), spec.width);
}

std::vector<float> floats(const ActivationSpec& spec, std::size_t elements) {
  const auto data = generated(spec, elements);
  std::vector<float> values(elements);
  std::memcpy(values.data(), data.data(), data.size());
  return values;
}

}  // namespace

TEST_CASE("SparsityIsMetForEveryElementType") {
  for (int type = 0; type < compression::element_type_count; ++type) {
    for (const double sparsity : {0.0, 0.1, 0.62, 0.95, 1.0}) {
      ActivationSpec spec = small_spec();
      spec.element = static_cast<ElementType>(type);
      spec.sparsity = sparsity;
      CAPTURE(compression::name_of(spec.element), sparsity);
      CHECK(statistics_of(spec, small_elements).sparsity == Approx(sparsity).margin(0.0005));
    }
  }
}

TEST_CASE("SparsityIsMetByEveryLawOfValuesAndForIndependentZeros") {
  for (const ValueLaw law :
       {ValueLaw::half_normal, ValueLaw::half_laplace, ValueLaw::relu6, ValueLaw::normal}) {
    for (const ZeroPattern zeros : {ZeroPattern::clustered, ZeroPattern::independent}) {
      ActivationSpec spec = small_spec();
      spec.values = law;
      spec.zeros = zeros;
      spec.sparsity = 0.8;
      CHECK(statistics_of(spec, small_elements).sparsity == Approx(0.8).margin(0.0005));
    }
  }
}

TEST_CASE("ZerosClusterAsInTrainedNetworks") {
  for (const double sparsity : {0.5, 0.62}) {
    ActivationSpec spec;
    spec.sparsity = sparsity;
    const double run = statistics_of(spec, std::size_t{64} * 112 * 112).mean_zero_run;
    CAPTURE(sparsity);
    CHECK(run >= 5);
    CHECK(run <= 8);
  }
}

TEST_CASE("IndependentZerosComeInTheRunsOfCoinTosses") {
  ActivationSpec spec;
  spec.zeros = ZeroPattern::independent;
  CHECK(statistics_of(spec, std::size_t{64} * 112 * 112).mean_zero_run == Approx(1 / 0.38).epsilon(0.03));
}

TEST_CASE("DeadChannelsAreZeroThroughout") {
  ActivationSpec spec = small_spec();
  spec.sparsity = 0.7;
  spec.dead_channels = 0.25;
  const auto values = floats(spec, small_elements / 2);
  const std::size_t plane = std::size_t{56} * 56;
  int dead = 0;
  for (std::size_t channel = 0; channel < 16; ++channel) {
    bool any = false;
    for (std::size_t i = 0; i < plane; ++i) any = any || values[(channel * plane) + i] != 0;
    dead += any ? 0 : 1;
  }
  CHECK(dead >= 4);
  CHECK(dead < 8);
  CHECK(statistics_of(spec, small_elements).sparsity == Approx(0.7).margin(0.0005));
}

TEST_CASE("TheSameSeedGivesTheSameBytesAndAnotherSeedOthers") {
  ActivationSpec spec = small_spec();
  spec.element = ElementType::f64;
  const auto once = generated(spec, small_elements);
  CHECK(once == generated(spec, small_elements));
  spec.seed = 2;
  CHECK(once != generated(spec, small_elements));
}

TEST_CASE("ImagesDifferButShareTheirChannels") {
  const auto values = floats(small_spec(), small_elements);
  const std::size_t image = small_elements / 2;
  CHECK(std::vector(values.begin(), values.begin() + image) !=
        std::vector(values.begin() + image, values.end()));
}

TEST_CASE("AnyNumberOfElementsWillDo") {
  for (const std::size_t elements : {std::size_t{0}, std::size_t{1}, std::size_t{55}, std::size_t{3137}}) {
    CHECK(generated(small_spec(), elements).size() == 4 * elements);
  }
}

TEST_CASE("PlanesSmallerThanTheBlurWillDo") {
  ActivationSpec spec;
  spec.channels = 512;
  spec.height = 7;
  spec.width = 3;
  CHECK(statistics_of(spec, std::size_t{512} * 21).sparsity == Approx(0.62).margin(0.0005));
}

TEST_CASE("ValuesFollowTheirLaw") {
  ActivationSpec spec = small_spec();
  const auto mean_of_values = [&spec] {
    double sum = 0;
    double count = 0;
    for (const float v : floats(spec, small_elements)) {
      sum += static_cast<double>(v);
      count += v != 0 ? 1 : 0;
    }
    return sum / count;
  };
  CHECK(mean_of_values() == Approx(std::sqrt(2 / 3.14159265)).epsilon(0.02));
  spec.values = ValueLaw::half_laplace;
  CHECK(mean_of_values() == Approx(1).epsilon(0.02));
  spec.values = ValueLaw::normal;
  CHECK(mean_of_values() == Approx(0).margin(0.02));
}

TEST_CASE("Relu6ValuesNeverExceedSixAndOftenAreSix") {
  ActivationSpec spec = small_spec();
  spec.values = ValueLaw::relu6;
  int clamped = 0;
  for (const float v : floats(spec, small_elements)) {
    REQUIRE(v <= 6);
    clamped += v == 6 ? 1 : 0;
  }
  CHECK(clamped > static_cast<int>(small_elements / 100));
}

TEST_CASE("ValuesThroughBf16HaveAnEmptyLowHalf") {
  ActivationSpec spec = small_spec();
  spec.through_bf16 = true;
  bool any_high = false;
  for (const float v : floats(spec, small_elements)) {
    const auto bits = std::bit_cast<std::uint32_t>(v);
    REQUIRE((bits & 0xFFFF) == 0);
    any_high = any_high || bits != 0;
  }
  CHECK(any_high);
}

TEST_CASE("DenseDataHasNoZerosAndBothSigns") {
  const ActivationSpec spec = dense_activations(ElementType::f32);
  const auto values = floats(spec, small_elements);
  std::set<bool> signs;
  for (const float v : values) {
    REQUIRE(v != 0);
    signs.insert(v < 0);
  }
  CHECK(signs.size() == 2);
}

TEST_CASE("RoundingGoesToTheNearestAndTiesToEven") {
  const auto bits = [](ElementType type, float value) { return rounded_bits(type, value); };
  CHECK(bits(ElementType::f16, 1.0F) == 0x3C00);
  CHECK(bits(ElementType::f16, 1.0F + 0x1p-11F) == 0x3C00);             // a tie, down to even
  CHECK(bits(ElementType::f16, 1.0F + 3 * 0x1p-11F) == 0x3C02);         // a tie, up to even
  CHECK(bits(ElementType::f16, 1.0F + 0x1p-11F + 0x1p-20F) == 0x3C01);  // just above a tie
  CHECK(bits(ElementType::f16, 2.0F - 0x1p-12F) == 0x4000);             // a carry into the exponent
  CHECK(bits(ElementType::f16, 65504.0F) == 0x7BFF);
  CHECK(bits(ElementType::f16, 65520.0F) == 0x7C00);  // to infinity
  CHECK(bits(ElementType::f16, 1e30F) == 0x7C00);
  CHECK(bits(ElementType::f16, 0x1p-24F) == 0x0001);            // the smallest denormal
  CHECK(bits(ElementType::f16, 0x1p-25F) == 0x0000);            // a tie with zero
  CHECK(bits(ElementType::f16, 1023.5F * 0x1p-24F) == 0x0400);  // from denormal to normal
  CHECK(bits(ElementType::f16, -0.0F) == 0x8000);
  CHECK(bits(ElementType::f16, -1.5F) == 0xBE00);
  CHECK(bits(ElementType::bf16, std::bit_cast<float>(0x3F808000U)) == 0x3F80);
  CHECK(bits(ElementType::bf16, std::bit_cast<float>(0x3F818000U)) == 0x3F82);
  CHECK(bits(ElementType::bf16, std::bit_cast<float>(0x3F808001U)) == 0x3F81);
  CHECK(bits(ElementType::bf16, std::bit_cast<float>(0x00018000U)) == 0x0002);  // denormal, tie to even
  CHECK(bits(ElementType::bf16, std::bit_cast<float>(0x7F7FFFFFU)) == 0x7F80);
  CHECK(bits(ElementType::f8e4m3, 1.0F) == 0x38);
  CHECK(bits(ElementType::f8e4m3, 448.0F) == 0x7E);
  CHECK(bits(ElementType::f8e4m3, 1000.0F) == 0x7E);
  CHECK(bits(ElementType::f8e4m3, 0x1p-9F) == 0x01);
  CHECK(bits(ElementType::f8e5m2, 1.0F) == 0x3C);
  CHECK(bits(ElementType::f8e5m2, 1.125F) == 0x3C);
  CHECK(bits(ElementType::f8e5m2, 57344.0F) == 0x7B);
  CHECK(bits(ElementType::f8e5m2, 61440.0F) == 0x7C);
}

TEST_CASE("RoundingKeepsInfinityAndNan") {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(rounded_bits(ElementType::f16, infinity) == 0x7C00);
  CHECK(rounded_bits(ElementType::bf16, -infinity) == 0xFF80);
  CHECK(rounded_bits(ElementType::f16, nan) == 0x7E00);
  CHECK(rounded_bits(ElementType::f8e4m3, nan) == 0x7F);
}

#ifdef __FLT16_MANT_DIG__
TEST_CASE("RoundingToF16AgreesWithTheCompiler") {
  std::uint32_t state = 1;
  for (int i = 0; i < 200000; ++i) {
    state = state * 1664525 + 1013904223;
    const auto value = std::bit_cast<float>(state);
    if (std::isnan(value)) continue;
    CAPTURE(value);
    REQUIRE(rounded_bits(ElementType::f16, value) ==
            std::bit_cast<std::uint16_t>(static_cast<_Float16>(value)));
  }
}
#endif

TEST_CASE("ProfilesOfNetworksAreThere") {
  REQUIRE(network_profiles().size() == 5);
  for (const NetworkProfile& profile : network_profiles()) {
    CHECK(!profile.name.empty());
    for (const float s : profile.sparsity) CHECK((s > 0 && s < 1));
  }
}

TEST_CASE("AlexnetDriftsFromItsFirstEpochToItsLast") {
  CHECK(alexnet_sparsity(0, 1) == Approx(0.51));
  CHECK(alexnet_sparsity(0, 52) == Approx(0.37));
  CHECK(alexnet_sparsity(6, 52) == Approx(0.86));
  // Nearly all of the change is in the first eleven epochs.
  CHECK(alexnet_sparsity(0, 11) < 0.39);
  for (int epoch = 2; epoch <= alexnet_epochs; ++epoch)
    CHECK(alexnet_sparsity(6, epoch) >= alexnet_sparsity(6, epoch - 1));
}

}  // namespace terrace::bench
