// Images of periods from anybody: through the reader, and what it lets through is planned; the schedule opens
// and moves what lives.
//
// The first byte chooses: the input as it is; the input with its checksum put right; a right image with
// (offset, value) pairs stored into it and its checksum put right.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "daemon/planning/period_planner.h"
#include "liballoc/wire/schedule/image.h"

using namespace terrace;

namespace {

void require(bool right) {
  if (!right) std::abort();
}

std::string with_sum(std::string image) {
  if (image.size() < sizeof(wire::PeriodHeader)) return image;
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, image.data() + offsetof(wire::PeriodHeader, image_bytes), sizeof bytes);
  if (bytes < sizeof(wire::PeriodHeader) || bytes > image.size()) return image;
  const std::uint64_t sum =
      XXH3_64bits(image.data() + wire::period_checksum_end, bytes - wire::period_checksum_end);
  std::memcpy(image.data() + offsetof(wire::PeriodHeader, checksum), &sum, sizeof sum);
  return image;
}

std::string changed_image(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint64_t mib = std::uint64_t{1} << 20;
  wire::PeriodDraft d;
  d.header.budget_bytes = 100 * mib;
  d.header.fixed_bytes = mib;
  d.events.assign(10, {10'000'000});
  d.objects = {{40 * mib, 0, 0, 9, 0, 3, 0},
               {40 * mib, 1, 0, 8, 3, 2, 0},
               {10 * mib, 2, 0, 1, 5, 2, 0},
               {4 * mib, 3, 0, 5, 7, 0, 0},
               {30 * mib, wire::persistent, 0, wire::never, 7, 2, 0},
               {2 * mib, wire::persistent, 5, wire::never, 9, 0, 0}};
  d.uses = {{0, 1}, {1, 0}, {8, 0}, {1, 1}, {6, 0}, {2, 1}, {0, 0}, {3, 0}, {5, 1}};
  std::string image = *wire::period_image(d);
  for (; size >= 3; data += 3, size -= 3) {
    std::uint16_t at = 0;
    std::memcpy(&at, data, sizeof at);
    image[at % image.size()] = static_cast<char>(data[2]);
  }
  return with_sum(std::move(image));
}

void check_plan(const daemon::PeriodPlan& plan, const wire::PeriodView& period) {
  std::vector<std::uint64_t> aligned((plan.image.size() + 7) / 8);
  std::memcpy(aligned.data(), plan.image.data(), plan.image.size());
  const auto opened = wire::open_schedule(std::as_bytes(std::span(aligned)).first(plan.image.size()));
  require(bool(opened));
  require(opened.view.header->period == period.events.size());
  for (const wire::ScheduleEntry& e : opened.view.entries) {
    const wire::ScheduleObject& named = opened.view.objects[e.object];
    require(wire::moves(e.action));
    const auto object = std::find_if(period.objects.begin(), period.objects.end(), [&](const auto& o) {
      return o.birth == named.birth && o.place == named.place;
    });
    require(object != period.objects.end() && object->bytes == named.bytes && object->uses > 0);
  }
}

void open(const std::string& bytes) {
  std::vector<std::uint64_t> aligned((bytes.size() + 7) / 8);
  if (!bytes.empty()) std::memcpy(aligned.data(), bytes.data(), bytes.size());
  const wire::OpenedPeriod opened = wire::open_period(std::as_bytes(std::span(aligned)).first(bytes.size()));
  require(bool(opened) == describe_fault(opened).empty());
  if (!opened) return require(opened.view.header == nullptr && opened.view.uses.empty());
  daemon::PeriodPlanner planner(opened.view, {});
  const auto plan = planner.quick();
  require(bool(plan) != !plan.error.empty());
  if (plan) check_plan(*plan, opened.view);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      open(bytes);
      break;
    case 1:
      open(with_sum(bytes));
      break;
    default:
      open(changed_image(data + 1, size - 1));
  }
  return 0;
}
