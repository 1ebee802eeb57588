#include "liballoc/wire/period/image.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstring>
#include <random>

namespace terrace::wire {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::Equals;

// Born in the period and freed in it, freed in the next one, never freed, without uses, and persistent ones.
PeriodDraft sample_period() {
  PeriodDraft d;
  d.header.period_hash = 0x0123456789abcdef;
  d.header.phase = 3;
  d.header.budget_bytes = std::uint64_t{1} << 30;
  d.header.fixed_bytes = std::uint64_t{1} << 20;
  d.header.step_ns = 5'000'000;
  std::memcpy(d.header.policy.data(), "joint", 5);
  d.events.assign(8, {1'000'000});
  d.objects = {{4096, 0, 0, 3, 0, 2, 0},           {8192, 1, 0, 5, 2, 0, 0},
               {2048, 6, 0, 2, 2, 3, 0},           {1024, 7, 0, never, 5, 1, 0},
               {1, persistent, 4, never, 6, 2, 0}, {2, persistent, 9, never, 8, 0, 0}};
  d.uses = {{0, use_writes}, {2, 0}, {6, 0}, {7, use_writes}, {1, 0}, {7, 0}, {0, 0}, {7, use_writes}};
  return d;
}

std::string period_bytes(const PeriodDraft& draft) {
  const Result<std::string> image = period_image(draft);
  INFO(image.error);
  REQUIRE(image);
  return *image;
}

OpenedPeriod opened_period(const std::string& image) { return open_period(std::as_bytes(std::span(image))); }

std::string with_period_sum(std::string image) {
  const std::uint64_t sum =
      XXH3_64bits(image.data() + period_checksum_end, image.size() - period_checksum_end);
  std::memcpy(image.data() + offsetof(PeriodHeader, checksum), &sum, sizeof sum);
  return image;
}

// What the reader says of the sample with these bytes written over it; the checksum is put right.
template <class T>
PeriodFault period_fault_with(std::size_t offset, T value) {
  std::string image = period_bytes(sample_period());
  REQUIRE(offset + sizeof value <= image.size());
  std::memcpy(image.data() + offset, &value, sizeof value);
  return opened_period(with_period_sum(std::move(image))).fault;
}

constexpr std::size_t events_at = sizeof(PeriodHeader);
constexpr std::size_t objects_at = events_at + 8 * sizeof(PeriodEvent);
constexpr std::size_t uses_at = objects_at + 6 * sizeof(PeriodObject);

std::size_t of_object(std::size_t index, std::size_t field) {
  return objects_at + index * sizeof(PeriodObject) + field;
}
std::size_t of_use(std::size_t index, std::size_t field) {
  return uses_at + index * sizeof(PeriodUse) + field;
}

}  // namespace

TEST_CASE("An image of a period opens as what was written") {
  const std::string image = period_bytes(sample_period()) + "and more behind it";
  const OpenedPeriod opened = opened_period(image);
  REQUIRE(opened);
  const PeriodView& view = opened.view;
  CHECK(view.header->phase == 3);
  CHECK(view.policy() == "joint");
  CHECK(view.events.size() == 8);
  REQUIRE(view.objects.size() == 6);
  CHECK(view.objects[2].death == 2);
  REQUIRE(view.uses_of(view.objects[2]).size() == 3);
  CHECK(view.uses_of(view.objects[2])[2].interval == 1);
  CHECK(view.uses_of(view.objects[5]).empty());
  CHECK(describe_fault(opened).empty());
}

TEST_CASE("An image of a period that is cut short or changed anywhere is refused") {
  const std::string image = period_bytes(sample_period());
  for (std::size_t size = 0; size < image.size(); ++size) {
    const auto fault = opened_period(image.substr(0, size)).fault;
    CHECK(fault == (size < sizeof(PeriodHeader) ? PeriodFault::too_short : PeriodFault::wrong_size));
  }
  for (std::size_t at = 0; at < image.size(); ++at) {
    std::string damaged = image;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    CHECK_FALSE(opened_period(damaged));
  }
  std::vector<std::uint64_t> words(image.size() / 8 + 2);
  auto* odd = reinterpret_cast<std::byte*>(words.data()) + 1;
  std::memcpy(odd, image.data(), image.size());
  CHECK(open_period({odd, image.size()}).fault == PeriodFault::misaligned);
}

TEST_CASE("Each rule of a period's image has its fault") {
  const auto header = [](std::size_t field) { return field; };
  const std::uint64_t huge = std::uint64_t{1} << 62;
  CHECK(period_fault_with(header(offsetof(PeriodHeader, magic)), std::uint64_t{1}) ==
        PeriodFault::not_a_period);
  CHECK(period_fault_with(header(offsetof(PeriodHeader, version)), 2U) == PeriodFault::other_version);
  CHECK(period_fault_with(header(offsetof(PeriodHeader, header_bytes)), 64U) == PeriodFault::wrong_size);
  CHECK(period_fault_with(header(offsetof(PeriodHeader, events)), 0U) == PeriodFault::counts);
  CHECK(period_fault_with(header(offsetof(PeriodHeader, events)), most_period_events + 1) ==
        PeriodFault::counts);
  CHECK(period_fault_with(header(offsetof(PeriodHeader, objects)), ~0U) == PeriodFault::counts);
  CHECK(period_fault_with(header(offsetof(PeriodHeader, uses)), 7U) == PeriodFault::wrong_size);
  CHECK(period_fault_with(header(offsetof(PeriodHeader, policy)) + 23, 'x') == PeriodFault::policy);
  CHECK(period_fault_with(header(offsetof(PeriodHeader, budget_bytes)), huge) == PeriodFault::header_numbers);
  CHECK(period_fault_with(header(offsetof(PeriodHeader, fixed_bytes)), huge) == PeriodFault::header_numbers);
  CHECK(period_fault_with(events_at, ~std::uint64_t{0}) == PeriodFault::times);
  CHECK(period_fault_with(of_object(0, offsetof(PeriodObject, bytes)), huge) == PeriodFault::object_bytes);
  CHECK(period_fault_with(of_object(3, offsetof(PeriodObject, birth)), 8U) == PeriodFault::object_birth);
  CHECK(period_fault_with(of_object(1, offsetof(PeriodObject, birth)), 0U) == PeriodFault::object_order);
  CHECK(period_fault_with(of_object(5, offsetof(PeriodObject, place)), 4U) == PeriodFault::object_order);
  CHECK(period_fault_with(of_object(1, offsetof(PeriodObject, place)), 1U) == PeriodFault::object_place);
  CHECK(period_fault_with(of_object(1, offsetof(PeriodObject, death)), 1U) == PeriodFault::object_death);
  CHECK(period_fault_with(of_object(1, offsetof(PeriodObject, death)), 8U) == PeriodFault::object_death);
  CHECK(period_fault_with(of_object(4, offsetof(PeriodObject, death)), 3U) == PeriodFault::object_death);
  CHECK(period_fault_with(of_object(5, offsetof(PeriodObject, uses)), 1U) == PeriodFault::object_uses);
  CHECK(period_fault_with(of_object(0, offsetof(PeriodObject, first_use)), ~0U) == PeriodFault::object_uses);
  CHECK(period_fault_with(of_use(1, 0), 3U) == PeriodFault::use_interval);  // it is freed there
  CHECK(period_fault_with(of_use(5, 0), 8U) == PeriodFault::use_interval);
  CHECK(period_fault_with(of_use(4, 0), 6U) == PeriodFault::use_order);
  CHECK(period_fault_with(of_use(7, 0), 0U) == PeriodFault::use_order);
  CHECK(period_fault_with(of_use(0, 4), 2U) == PeriodFault::use_flags);
  for (auto fault = PeriodFault::too_short; fault < PeriodFault::count;
       fault = static_cast<PeriodFault>(static_cast<int>(fault) + 1))
    CHECK_THAT(text_of(fault), !Equals(""));
}

TEST_CASE("The worked example of docs/formats/period.md opens") {
  PeriodDraft d;
  d.events = {{1'000'000}, {2'000'000}};
  d.objects = {{std::uint64_t{4} << 20, 0, 0, 1, 0, 1, 0},
               {std::uint64_t{6} << 20, persistent, 9, never, 1, 1, 0}};
  d.uses = {{0, use_writes}, {1, 0}};
  const unsigned char arrays[] = {
      0x40, 0x42, 0x0f, 0,    0, 0, 0, 0, 0x80, 0x84, 0x1e, 0,    0, 0, 0,    0,  // events
      0,    0,    0x40, 0,    0, 0, 0, 0, 0,    0,    0,    0,    0, 0, 0,    0, 1, 0, 0, 0,
      0,    0,    0,    0,    1, 0, 0, 0, 0,    0,    0,    0,    0, 0, 0x60, 0, 0, 0, 0, 0,
      0xff, 0xff, 0xff, 0xff, 9, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 1, 0, 0,    0, 1, 0, 0, 0,
      0,    0,    0,    0,    0, 0, 0, 0, 1,    0,    0,    0,    1, 0, 0,    0, 0, 0, 0, 0};  // uses
  const std::string image = period_bytes(d);
  CHECK(image.size() == 224);
  REQUIRE(image.size() == sizeof(PeriodHeader) + sizeof arrays);
  CHECK(std::memcmp(image.data() + sizeof(PeriodHeader), arrays, sizeof arrays) == 0);
  CHECK(std::memcmp(image.data(), "TsPeriod", 8) == 0);
}

// Many objects that name the same uses would cost more to look at than the image is long.
TEST_CASE("Uses that several objects name are no more than there are") {
  PeriodDraft d = sample_period();
  d.objects[3].first_use = 0;
  d.objects[3].uses = 8;
  const Result<std::string> image = period_image(d);
  CHECK_FALSE(image);
  CHECK_THAT(image.error, Contains("more uses together"));
}

TEST_CASE("Sums of a period's bytes and times cannot overflow") {
  PeriodDraft d = sample_period();
  for (PeriodObject& o : d.objects) o.bytes = (std::uint64_t{1} << 62) / 5;
  CHECK_THAT(period_image(d).error, Contains("2^62 bytes"));
  d = sample_period();
  for (PeriodEvent& e : d.events) e.ns = (std::uint64_t{1} << 62) / 7;
  CHECK_THAT(period_image(d).error, Contains("2^62 nanoseconds"));
}

}  // namespace terrace::wire
