// The reader; image_writer.cpp has what allocates. Each check answers a fault; the first one counts.
#include "liballoc/wire/schedule/image.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace terrace::wire {
namespace {

constexpr const char* fault_texts[] = {
    "",
    "it ends before its header does",
    "it does not begin at a multiple of 8",
    "it is no schedule of Terrace",
    "it has another version than 2; plan again",
    "it says that it is longer than it is, or shorter than its header",
    "its checksum is not that of its bytes",
    "its clock is none of allocations, operations and saves",
    "an order of its queues is neither asked nor deadline",
    "its period is 0 or too long",
    "it has too many objects, entries, tiers or codecs, or no tier",
    "an array lies outside of it or not at a multiple of 8 (0 objects, 1 entries, 2 tiers, 3 codecs)",
    "a name does not end, or goes on after its end",
    "a predicted time is negative or no number",
    "an object has 2^62 bytes or more",
    "an object is born after the period's end",
    "an object stands after one of a later birth or place, or is there twice",
    "an entry stands after one of a later ordinal",
    "an entry begins after the period's end",
    "an entry's deadline is before its begin, or more than a period after it",
    "an entry names an object that is not there",
    "an entry's action is none of out, in, drop, redo and wait",
    "an entry's range lies outside of its object",
    "an entry's tier is not there, is the first one of a move, or given without a move",
    "an entry's codec is not there, or given without a move",
};
static_assert(std::size(fault_texts) == static_cast<std::size_t>(ImageFault::count));

constexpr std::size_t alignment = 8;

bool is_aligned(const std::byte* data) {
  return reinterpret_cast<std::uintptr_t>(data) % alignment == 0;  // an address is what is asked about
}

bool is_name(const ImageName& name) {
  const auto* end = std::find(name.begin(), name.end(), '\0');
  return end != name.end() && std::all_of(end, name.end(), [](char c) { return c == '\0'; });
}

bool is_time(double us) { return std::isfinite(us) && us >= 0; }

ImageFault check_frame(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(ImageHeader)) return ImageFault::too_short;
  if (!is_aligned(bytes.data())) return ImageFault::misaligned;
  const auto& h = *reinterpret_cast<const ImageHeader*>(bytes.data());
  if (h.magic != image_magic) return ImageFault::not_a_schedule;
  if (h.version != image_version) return ImageFault::other_version;
  if (h.header_bytes != sizeof(ImageHeader) || h.image_bytes < sizeof(ImageHeader) ||
      h.image_bytes > bytes.size()) {
    return ImageFault::wrong_size;
  }
  const std::uint64_t sum =
      XXH3_64bits(bytes.data() + image_checksum_end, h.image_bytes - image_checksum_end);
  return sum == h.checksum ? ImageFault::none : ImageFault::damaged;
}

ImageFault check_header(const ImageHeader& h) {
  if (h.clock >= Clock::count) return ImageFault::clock;
  if (h.out_order >= Order::count || h.in_order >= Order::count) return ImageFault::order;
  if (h.period == 0 || h.period > most_period) return ImageFault::period;
  if (h.objects > most_image_objects || h.entries > most_image_entries || h.tiers == 0 ||
      h.tiers > most_image_parts || h.codecs > most_image_parts) {
    return ImageFault::counts;
  }
  if (!is_name(h.policy)) return ImageFault::name;
  const bool times = is_time(h.step_us) && is_time(h.late_us) && is_time(h.fetch_us) && is_time(h.room_us);
  return times ? ImageFault::none : ImageFault::prediction;
}

// The counts are within their limits, so no product here wraps.
template <class T>
bool take_array(std::span<const std::byte> bytes, const ImageHeader& h, std::uint64_t at, std::uint32_t count,
                std::span<const T>* out) {
  static_assert(alignof(T) <= alignment);
  if (at % alignment != 0 || at < h.header_bytes || at > h.image_bytes) return false;
  if (count * sizeof(T) > h.image_bytes - at) return false;
  *out = {reinterpret_cast<const T*>(bytes.data() + at), count};
  return true;
}

bool take_arrays(std::span<const std::byte> bytes, ScheduleView* view, std::uint32_t* which) {
  const ImageHeader& h = *view->header;
  *which = 0;
  if (!take_array(bytes, h, h.objects_at, h.objects, &view->objects)) return false;
  *which = 1;
  if (!take_array(bytes, h, h.entries_at, h.entries, &view->entries)) return false;
  *which = 2;
  if (!take_array(bytes, h, h.tiers_at, h.tiers, &view->tiers)) return false;
  *which = 3;
  return take_array(bytes, h, h.codecs_at, h.codecs, &view->codecs);
}

bool is_before(const ScheduleObject& a, const ScheduleObject& b) {
  return a.birth != b.birth ? a.birth < b.birth : a.place < b.place;
}

ImageFault check_object(const ScheduleView& view, std::uint32_t i) {
  const ScheduleObject& o = view.objects[i];
  if (o.bytes >= most_object_bytes) return ImageFault::object_bytes;
  if (o.birth != persistent && o.birth >= view.header->period) return ImageFault::object_birth;
  return i == 0 || is_before(view.objects[i - 1], o) ? ImageFault::none : ImageFault::object_order;
}

ImageFault check_entry(const ScheduleView& view, std::uint32_t i) {
  const ScheduleEntry& e = view.entries[i];
  if (i > 0 && view.entries[i - 1].at > e.at) return ImageFault::entry_order;
  if (e.at > view.header->period) return ImageFault::entry_at;
  if (e.by < e.at || e.by - e.at > view.header->period) return ImageFault::entry_by;
  if (e.object >= view.objects.size()) return ImageFault::entry_object;
  if (e.action >= Action::count || e.action == Action::stage) return ImageFault::entry_action;
  const std::uint64_t bytes = view.objects[e.object].bytes;
  if (e.begin > bytes || e.bytes > bytes - e.begin) return ImageFault::entry_range;
  const bool tier = moves(e.action) ? e.tier > 0 && e.tier < view.tiers.size() : e.tier == 0;
  if (!tier) return ImageFault::entry_tier;
  const bool codec = e.codec == 0 || (moves(e.action) && e.codec <= view.codecs.size());
  return codec ? ImageFault::none : ImageFault::entry_codec;
}

template <class Check>
ImageFault first_fault(std::size_t count, std::uint32_t* index, Check check) {
  for (*index = 0; *index < count; ++*index)
    if (const ImageFault fault = check(*index); fault != ImageFault::none) return fault;
  *index = 0;
  return ImageFault::none;
}

ImageFault check_arrays(const ScheduleView& view, std::uint32_t* index) {
  ImageFault fault = first_fault(view.tiers.size(), index, [&](std::uint32_t i) {
    return is_name(view.tiers[i].name) ? ImageFault::none : ImageFault::name;
  });
  if (fault != ImageFault::none) return fault;
  fault = first_fault(view.codecs.size(), index, [&](std::uint32_t i) {
    return is_name(view.codecs[i].name) ? ImageFault::none : ImageFault::name;
  });
  if (fault != ImageFault::none) return fault;
  fault = first_fault(view.objects.size(), index, [&](std::uint32_t i) { return check_object(view, i); });
  if (fault != ImageFault::none) return fault;
  return first_fault(view.entries.size(), index, [&](std::uint32_t i) { return check_entry(view, i); });
}

}  // namespace

const char* text_of(ImageFault fault) noexcept {
  return fault < ImageFault::count ? fault_texts[static_cast<std::size_t>(fault)] : "unknown";
}

std::string_view text_of(const ImageName& name) noexcept {
  return {name.data(), static_cast<std::size_t>(std::find(name.begin(), name.end(), '\0') - name.begin())};
}

std::size_t ScheduleView::find(std::uint32_t birth, std::uint32_t place) const noexcept {
  const ScheduleObject wanted{0, 0, birth, place};
  const auto found = std::lower_bound(objects.begin(), objects.end(), wanted, is_before);
  const bool there = found != objects.end() && !is_before(wanted, *found);
  return there ? static_cast<std::size_t>(found - objects.begin()) : objects.size();
}

OpenedSchedule open_schedule(std::span<const std::byte> bytes) noexcept {
  OpenedSchedule opened;
  opened.fault = check_frame(bytes);
  if (!opened) return opened;
  ScheduleView view;
  view.header = reinterpret_cast<const ImageHeader*>(bytes.data());
  opened.fault = check_header(*view.header);
  if (!opened) return opened;
  if (!take_arrays(bytes, &view, &opened.index)) {
    opened.fault = ImageFault::array;
    return opened;
  }
  opened.fault = check_arrays(view, &opened.index);
  if (opened) opened.view = view;
  return opened;
}

}  // namespace terrace::wire
