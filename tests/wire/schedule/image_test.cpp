#include "liballoc/wire/schedule/image.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

namespace terrace::wire {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::Equals;

const std::vector<std::string> tier_names = {"gpu", "dram", "nvme"};
const std::vector<std::string> codec_names = {"zvc", "rle"};

// Objects neither sorted nor all named; an entry of each action.
Schedule sample() {
  Schedule s{"step", "by hand", {}};
  s.clock = Clock::allocations;
  s.period = 20;
  s.period_hash = 0x0123456789abcdef;
  s.in_order = Order::deadline;
  s.objects = {{7, 4096, persistent, 0}, {8, 100, 5, 1}, {9, 200, 5, 0}, {10, 1, 0, 0}};
  s.entries = {{2, 0, Action::out, 1, 2, 18, 0, whole_object},
               {6, 1, Action::drop, 0, 0, 6, 10, 90},
               {7, 1, Action::redo, 0, 0, 9, 0, 0},
               {8, 2, Action::out, 2, 0, 21, 64, 100},
               {18, 0, Action::wait, 0, 0, 18},
               {20, 0, Action::in, 1, 2, 22, 0, 4096}};
  s.predicted = {1500.5, 1, 2, 3, {11, 12, 13}};
  return s;
}

std::string image_of(const Schedule& schedule) {
  const Result<std::string> image = schedule_image(schedule, tier_names, codec_names);
  INFO(image.error);
  REQUIRE(image);
  return *image;
}

OpenedSchedule opened(const std::string& image) { return open_schedule(std::as_bytes(std::span(image))); }

std::string with_sum(std::string image) {
  const std::uint64_t sum = XXH3_64bits(image.data() + image_checksum_end, image.size() - image_checksum_end);
  std::memcpy(image.data() + offsetof(ImageHeader, checksum), &sum, sizeof sum);
  return image;
}

// What the reader says of the sample with these bytes written over it; the checksum is put right.
template <class T>
ImageFault fault_with(std::size_t offset, T value) {
  std::string image = image_of(sample());
  REQUIRE(offset + sizeof value <= image.size());
  std::memcpy(image.data() + offset, &value, sizeof value);
  return opened(with_sum(std::move(image))).fault;
}

std::size_t at_of(std::uint64_t ImageHeader::*array) {
  const std::string image = image_of(sample());
  return reinterpret_cast<const ImageHeader*>(image.data())->*array;
}

std::size_t entry_at(std::size_t index, std::size_t field) {
  return at_of(&ImageHeader::entries_at) + index * sizeof(ScheduleEntry) + field;
}
std::size_t object_at(std::size_t index, std::size_t field) {
  return at_of(&ImageHeader::objects_at) + index * sizeof(ScheduleObject) + field;
}

bool same(const ScheduleEntry& a, const ScheduleEntry& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

}  // namespace

TEST_CASE("An image holds what the schedule says with its objects in the order of birth") {
  const std::string image = image_of(sample());
  const OpenedSchedule o = opened(image);
  REQUIRE(o);
  const ImageHeader& h = *o.view.header;
  CHECK((h.period == 20 && h.period_hash == 0x0123456789abcdef && h.clock == Clock::allocations));
  CHECK((h.out_order == Order::asked && h.in_order == Order::deadline));
  CHECK((h.step_us == 1500.5 && h.late_us == 1 && h.fetch_us == 2 && h.room_us == 3));
  CHECK(text_of(h.policy) == "by hand");
  REQUIRE(o.view.objects.size() == 3);  // the fourth is named by no entry
  CHECK((o.view.objects[0].id == 9 && o.view.objects[1].id == 8 && o.view.objects[2].id == 7));
  REQUIRE(o.view.entries.size() == 6);
  CHECK(same(o.view.entries[0], {2, 2, Action::out, 1, 2, 18, 0, 4096}));
  CHECK(same(o.view.entries[1], {6, 1, Action::drop, 0, 0, 6, 10, 90}));
  CHECK(same(o.view.entries[3], {8, 0, Action::out, 2, 0, 21, 64, 100}));
  REQUIRE((o.view.tiers.size() == 3 && o.view.codecs.size() == 2));
  CHECK((text_of(o.view.tiers[2].name) == "nvme" && o.view.tiers[2].predicted_peak_bytes == 13));
  CHECK(text_of(o.view.codecs[1].name) == "rle");
  CHECK(o.view.find(5, 1) == 1);
  CHECK(o.view.find(persistent, 0) == 2);
  CHECK(o.view.find(5, 2) == 3);
  CHECK(o.view.find(4, 0) == 3);
}

TEST_CASE("What was read from an image makes the same image") {
  const std::string image = image_of(sample());
  CHECK(image_of(schedule_of(opened(image).view)) == image);
  Schedule empty{"", "", {}};
  empty.period = 1;
  const Result<std::string> least = schedule_image(empty, {"dram"}, {});
  REQUIRE(least);
  const OpenedSchedule o = opened(*least);
  REQUIRE(o);
  CHECK((o.view.entries.empty() && o.view.objects.empty()));
}

TEST_CASE("The documented example has the documented size") {
  Schedule s{"", "", {{4, 0, Action::out, 1, 0, 8}, {4, 0, Action::in, 1, 0, 8}}};
  s.period = 10;
  s.objects = {{0, 4096, 3, 0}};
  const Result<std::string> image = schedule_image(s, {"dram", "nvme"}, {});
  REQUIRE(image);
  CHECK(image->size() == 328);
}

TEST_CASE("Each field of the header is checked") {
  const auto header = [](std::size_t offset, auto value) { return fault_with(offset, value); };
  using std::uint32_t;
  using std::uint64_t;
  CHECK(header(offsetof(ImageHeader, magic), uint64_t{1}) == ImageFault::not_a_schedule);
  CHECK(header(offsetof(ImageHeader, version), uint32_t{1}) == ImageFault::other_version);
  CHECK(header(offsetof(ImageHeader, version), uint32_t{3}) == ImageFault::other_version);
  CHECK(header(offsetof(ImageHeader, header_bytes), uint32_t{168}) == ImageFault::wrong_size);
  CHECK(header(offsetof(ImageHeader, image_bytes), uint64_t{100}) == ImageFault::wrong_size);
  CHECK(header(offsetof(ImageHeader, image_bytes), ~uint64_t{0}) == ImageFault::wrong_size);
  CHECK(header(offsetof(ImageHeader, clock), uint32_t{3}) == ImageFault::clock);
  CHECK(header(offsetof(ImageHeader, out_order), uint32_t{2}) == ImageFault::order);
  CHECK(header(offsetof(ImageHeader, in_order), ~uint32_t{0}) == ImageFault::order);
  CHECK(header(offsetof(ImageHeader, period), uint32_t{0}) == ImageFault::period);
  CHECK(header(offsetof(ImageHeader, period), most_period + 1) == ImageFault::period);
  CHECK(header(offsetof(ImageHeader, objects), most_image_objects + 1) == ImageFault::counts);
  CHECK(header(offsetof(ImageHeader, entries), ~uint32_t{0}) == ImageFault::counts);
  CHECK(header(offsetof(ImageHeader, tiers), uint32_t{0}) == ImageFault::counts);
  CHECK(header(offsetof(ImageHeader, tiers), uint32_t{65}) == ImageFault::counts);
  CHECK(header(offsetof(ImageHeader, codecs), uint32_t{65}) == ImageFault::counts);
  for (const std::size_t times : {offsetof(ImageHeader, step_us), offsetof(ImageHeader, late_us),
                                  offsetof(ImageHeader, fetch_us), offsetof(ImageHeader, room_us)}) {
    CHECK(header(times, std::nan("")) == ImageFault::prediction);
    CHECK(header(times, std::numeric_limits<double>::infinity()) == ImageFault::prediction);
    CHECK(header(times, -1.0) == ImageFault::prediction);
  }
  CHECK(header(offsetof(ImageHeader, policy) + 23, 'x') == ImageFault::name);  // it goes on after its end
  ImageName endless;
  endless.fill('x');
  CHECK(header(offsetof(ImageHeader, policy), endless) == ImageFault::name);
  CHECK(header(at_of(&ImageHeader::tiers_at), endless) == ImageFault::name);
  CHECK(header(at_of(&ImageHeader::codecs_at) + sizeof(ImageCodec), endless) == ImageFault::name);
}

TEST_CASE("Arrays lie inside of the image behind its header and at multiples of 8") {
  const std::size_t size = image_of(sample()).size();
  std::uint32_t which = 0;
  for (const std::size_t field : {offsetof(ImageHeader, objects_at), offsetof(ImageHeader, entries_at),
                                  offsetof(ImageHeader, tiers_at), offsetof(ImageHeader, codecs_at)}) {
    for (const std::uint64_t at :
         {std::uint64_t{0}, std::uint64_t{152}, std::uint64_t{164}, std::uint64_t{size - 8},
          std::uint64_t{size + 8}, ~std::uint64_t{7}, ~std::uint64_t{0} - 100}) {
      INFO("field at " << field << " is " << at);
      std::string image = image_of(sample());
      std::memcpy(image.data() + field, &at, sizeof at);
      const OpenedSchedule o = opened(with_sum(std::move(image)));
      CHECK(o.fault == ImageFault::array);
      CHECK(o.index == which);
      CHECK(o.view.entries.empty());
    }
    ++which;
  }
}

TEST_CASE("Each field of an object and of an entry is checked and the first that is wrong is named") {
  using std::uint32_t;
  using std::uint64_t;
  const std::size_t bytes = offsetof(ScheduleObject, bytes), birth = offsetof(ScheduleObject, birth),
                    place = offsetof(ScheduleObject, place);
  CHECK(fault_with(object_at(1, bytes), most_object_bytes) == ImageFault::object_bytes);
  CHECK(fault_with(object_at(1, birth), uint32_t{20}) == ImageFault::object_birth);
  CHECK(fault_with(object_at(1, birth), uint32_t{4}) == ImageFault::object_order);
  CHECK(fault_with(object_at(1, place), uint32_t{0}) == ImageFault::object_order);  // there twice
  const auto field = [](std::size_t index, std::size_t offset, auto value) {
    return fault_with(entry_at(index, offset), value);
  };
  CHECK(field(2, offsetof(ScheduleEntry, at), uint32_t{5}) == ImageFault::entry_order);
  CHECK(field(5, offsetof(ScheduleEntry, at), uint32_t{21}) == ImageFault::entry_at);
  CHECK(field(3, offsetof(ScheduleEntry, by), uint32_t{7}) == ImageFault::entry_by);
  CHECK(field(3, offsetof(ScheduleEntry, by), uint32_t{29}) == ImageFault::entry_by);
  CHECK(field(3, offsetof(ScheduleEntry, by), no_deadline) == ImageFault::entry_by);
  CHECK(field(3, offsetof(ScheduleEntry, object), uint32_t{3}) == ImageFault::entry_object);
  CHECK(field(3, offsetof(ScheduleEntry, action), uint32_t{5}) == ImageFault::entry_action);
  CHECK(field(3, offsetof(ScheduleEntry, begin), uint64_t{201}) == ImageFault::entry_range);
  CHECK(field(3, offsetof(ScheduleEntry, begin), ~uint64_t{0}) == ImageFault::entry_range);
  CHECK(field(3, offsetof(ScheduleEntry, bytes), uint64_t{137}) == ImageFault::entry_range);
  CHECK(field(3, offsetof(ScheduleEntry, bytes), ~uint64_t{0}) == ImageFault::entry_range);
  CHECK(field(3, offsetof(ScheduleEntry, tier), uint32_t{0}) == ImageFault::entry_tier);
  CHECK(field(3, offsetof(ScheduleEntry, tier), uint32_t{3}) == ImageFault::entry_tier);
  CHECK(field(1, offsetof(ScheduleEntry, tier), uint32_t{1}) == ImageFault::entry_tier);
  CHECK(field(3, offsetof(ScheduleEntry, codec), uint32_t{3}) == ImageFault::entry_codec);
  CHECK(field(1, offsetof(ScheduleEntry, codec), uint32_t{1}) == ImageFault::entry_codec);
  std::string image = image_of(sample());
  const std::uint32_t no_action = 9;
  std::memcpy(image.data() + entry_at(4, offsetof(ScheduleEntry, action)), &no_action, sizeof no_action);
  const OpenedSchedule o = opened(with_sum(std::move(image)));
  CHECK_THAT(describe_fault(o),
             Equals("the image of the schedule cannot be used: an entry's action is none of "
                    "out, in, drop, redo and wait, number 4"));
}

TEST_CASE("Whatever bit of an image is turned over is noticed") {
  const std::string image = image_of(sample());
  for (std::size_t bit = 0; bit < image.size() * 8; ++bit) {
    INFO("bit " << bit);
    std::string damaged = image;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    REQUIRE(!opened(damaged));
  }
}

TEST_CASE("An image that is cut short is refused and one in a longer mapping is not") {
  const std::string image = image_of(sample());
  for (std::size_t bytes = 0; bytes < image.size(); ++bytes)
    REQUIRE(!open_schedule(std::as_bytes(std::span(image).first(bytes))));
  CHECK(open_schedule({}).fault == ImageFault::too_short);
  CHECK(opened(image + std::string(5, '\1')));
  std::string moved = "1234" + image;
  CHECK(open_schedule(std::as_bytes(std::span(moved).subspan(4))).fault == ImageFault::misaligned);
}

// The checksum is put right, so that what stands behind it is what refuses, or what is let through is right.
TEST_CASE("Changed images are refused or hold only what may be indexed with") {
  std::mt19937 random(1);
  int passed = 0, refusals = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string image = image_of(sample());
    for (int changes = 1 + static_cast<int>(random() % 3); changes > 0; --changes) {
      const std::size_t at = random() % image.size();
      image[at] = static_cast<char>(random() % 4 == 0 ? random() : image[at] + 1);
    }
    image = with_sum(std::move(image));
    const OpenedSchedule o = opened(image);
    ++(o ? passed : refusals);
    REQUIRE(bool(o) == describe_fault(o).empty());
    for (const ScheduleEntry& e : o.view.entries) {
      REQUIRE((e.at <= o.view.header->period && e.object < o.view.objects.size()));
      REQUIRE(e.begin + e.bytes <= o.view.objects[e.object].bytes);
      REQUIRE((e.tier < o.view.tiers.size() && e.codec <= o.view.codecs.size()));
    }
  }
  CHECK(passed > 1000);
  CHECK(refusals > 1000);
}

TEST_CASE("A schedule that no image can hold is refused by its place") {
  const auto why = [](const std::function<void(Schedule&)>& change) {
    Schedule s = sample();
    change(s);
    return schedule_image(s, tier_names, codec_names).error;
  };
  CHECK_THAT(why([](Schedule& s) { s.period = 0; }), Contains("does not say its period"));
  CHECK_THAT(why([](Schedule& s) { s.entries[1].by = no_deadline; }),
             Contains("entries[1]: it has no deadline"));
  CHECK_THAT(why([](Schedule& s) { s.entries[2].object = 4; }), Contains("entries[2]: there is no object 4"));
  CHECK_THAT(why([](Schedule& s) { s.entries[3].tier = 3; }), Contains("tier") && Contains("number 3"));
  CHECK_THAT(why([](Schedule& s) { s.entries[3].begin = 500; }), Contains("range") && Contains("number 3"));
  CHECK_THAT(why([](Schedule& s) { s.predicted.step_us = std::nan(""); }), Contains("predicted time"));
  CHECK_THAT(why([](Schedule& s) { s.policy = std::string(24, 'p'); }), Contains("name of policy"));
  CHECK_THAT(schedule_image(sample(), {"gpu", "dram", std::string(30, 'd')}, codec_names).error,
             Contains("name of tier"));
}

}  // namespace terrace::wire
