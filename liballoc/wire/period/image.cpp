// The reader; image_writer.cpp has what allocates. Each check answers a fault; the first one counts.
#include "liballoc/wire/period/image.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <iterator>

namespace terrace::wire {
namespace {

constexpr const char* period_fault_texts[] = {
    "",
    "it ends before its header does",
    "it does not begin at a multiple of 8",
    "it is no period of Terrace",
    "it has another version than 1; install the same version of the library and the daemon",
    "its length is not that of its header and arrays, or it says that it is longer than it is",
    "its checksum is not that of its bytes",
    "it has no event, or too many events, objects or uses",
    "the name of its policy does not end, or goes on after its end",
    "its budget, its fixed bytes, its step or its waits are 2^62 or more",
    "its intervals take 2^62 nanoseconds or more together",
    "its objects have 2^62 bytes or more together",
    "an object is born after the period's end",
    "an object stands after one of a later birth or place, or is there twice",
    "an object has a place that is not 0, though it does not persist",
    "an object's death is after the period's end, at its birth, or that of what persists",
    "an object's uses lie outside of the uses, or all objects have more uses together than there are",
    "an object is used outside of its life",
    "a use stands after a later one of the same object, or is there twice",
    "a use has a flag that is not known",
};
static_assert(std::size(period_fault_texts) == static_cast<std::size_t>(PeriodFault::count));

constexpr std::size_t period_alignment = 8;

bool ends_in_zeros(const std::array<char, 24>& name) {
  const auto* end = std::find(name.begin(), name.end(), '\0');
  return end != name.end() && std::all_of(end, name.end(), [](char c) { return c == '\0'; });
}

PeriodFault check_period_frame(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(PeriodHeader)) return PeriodFault::too_short;
  // An address is what is asked about.
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % period_alignment != 0) return PeriodFault::misaligned;
  const auto& h = *reinterpret_cast<const PeriodHeader*>(bytes.data());
  if (h.magic != period_magic) return PeriodFault::not_a_period;
  if (h.version != period_version) return PeriodFault::other_version;
  if (h.header_bytes != sizeof(PeriodHeader) || h.image_bytes < sizeof(PeriodHeader) ||
      h.image_bytes > bytes.size() || h.image_bytes > most_period_bytes) {
    return PeriodFault::wrong_size;
  }
  const std::uint64_t sum =
      XXH3_64bits(bytes.data() + period_checksum_end, h.image_bytes - period_checksum_end);
  return sum == h.checksum ? PeriodFault::none : PeriodFault::damaged;
}

// The counts are within their limits before they are multiplied, so that nothing here wraps.
PeriodFault check_period_header(const PeriodHeader& h) {
  if (h.events == 0 || h.events > most_period_events || h.objects > most_period_objects ||
      h.uses > most_period_uses) {
    return PeriodFault::counts;
  }
  const std::size_t bytes = sizeof(PeriodHeader) + h.events * sizeof(PeriodEvent) +
                            h.objects * sizeof(PeriodObject) + h.uses * sizeof(PeriodUse);
  if (h.image_bytes != bytes) return PeriodFault::wrong_size;
  if (!ends_in_zeros(h.policy)) return PeriodFault::policy;
  const bool small = h.budget_bytes < most_period_sum && h.fixed_bytes < most_period_sum &&
                     h.step_ns < most_period_sum && h.waited_ns < most_period_sum;
  return small ? PeriodFault::none : PeriodFault::header_numbers;
}

PeriodView view_of(const std::byte* bytes) {
  PeriodView view;
  view.header = reinterpret_cast<const PeriodHeader*>(bytes);
  const std::byte* at = bytes + sizeof(PeriodHeader);
  view.events = {reinterpret_cast<const PeriodEvent*>(at), view.header->events};
  at += view.events.size_bytes();
  view.objects = {reinterpret_cast<const PeriodObject*>(at), view.header->objects};
  at += view.objects.size_bytes();
  view.uses = {reinterpret_cast<const PeriodUse*>(at), view.header->uses};
  return view;
}

bool add_below_limit(std::uint64_t more, std::uint64_t* sum) {
  if (more >= most_period_sum - *sum) return false;
  *sum += more;
  return true;
}

PeriodFault check_times(const PeriodView& view, std::uint32_t* index) {
  std::uint64_t sum = 0;
  for (*index = 0; *index < view.events.size(); ++*index)
    if (!add_below_limit(view.events[*index].ns, &sum)) return PeriodFault::times;
  return PeriodFault::none;
}

bool stands_before(const PeriodObject& a, const PeriodObject& b) {
  return a.birth != b.birth ? a.birth < b.birth : a.place < b.place;
}

PeriodFault check_life(const PeriodObject& o, std::uint32_t events) {
  if (o.birth == persistent) return o.death == never ? PeriodFault::none : PeriodFault::object_death;
  if (o.birth >= events) return PeriodFault::object_birth;
  if (o.place != 0) return PeriodFault::object_place;
  const bool dies = o.death != never;
  return dies && (o.death >= events || o.death == o.birth) ? PeriodFault::object_death : PeriodFault::none;
}

// How many intervals after the birth's one this one is. Of what persists: after the period's first.
std::uint32_t age_at(const PeriodObject& o, std::uint32_t interval, std::uint32_t events) {
  if (o.birth == persistent) return interval;
  return interval >= o.birth ? interval - o.birth : interval + events - o.birth;
}

// One that is never freed lives to the period's end, and beyond it as another one.
std::uint32_t intervals_of_life(const PeriodObject& o, std::uint32_t events) {
  if (o.birth == persistent) return events;
  return o.death == never ? events - o.birth : age_at(o, o.death, events);
}

PeriodFault check_uses_of(const PeriodView& view, const PeriodObject& o, std::uint32_t* index) {
  const std::uint32_t events = view.header->events, life = intervals_of_life(o, events);
  std::uint32_t before = 0;
  for (*index = o.first_use; *index < o.first_use + o.uses; ++*index) {
    const PeriodUse& use = view.uses[*index];
    if ((use.flags & ~use_writes) != 0) return PeriodFault::use_flags;
    if (use.interval >= events) return PeriodFault::use_interval;
    const std::uint32_t age = age_at(o, use.interval, events);
    if (age >= life) return PeriodFault::use_interval;
    if (*index > o.first_use && age <= before) return PeriodFault::use_order;
    before = age;
  }
  return PeriodFault::none;
}

PeriodFault check_objects(const PeriodView& view, std::uint32_t* index) {
  std::uint64_t sum = 0;
  std::size_t left = view.uses.size();  // so that no use counts for many objects
  for (std::uint32_t i = 0; i < view.objects.size(); ++i) {
    *index = i;
    const PeriodObject& o = view.objects[i];
    if (!add_below_limit(o.bytes, &sum)) return PeriodFault::object_bytes;
    if (const PeriodFault fault = check_life(o, view.header->events); fault != PeriodFault::none)
      return fault;
    if (i > 0 && !stands_before(view.objects[i - 1], o)) return PeriodFault::object_order;
    const bool inside = o.first_use <= view.uses.size() && o.uses <= view.uses.size() - o.first_use;
    if (!inside || o.uses > left) return PeriodFault::object_uses;
    left -= o.uses;
    if (const PeriodFault fault = check_uses_of(view, o, index); fault != PeriodFault::none) return fault;
  }
  return PeriodFault::none;
}

}  // namespace

const char* text_of(PeriodFault fault) noexcept {
  return fault < PeriodFault::count ? period_fault_texts[static_cast<std::size_t>(fault)] : "unknown";
}

std::string_view PeriodView::policy() const noexcept {
  const std::array<char, 24>& name = header->policy;
  return {name.data(), static_cast<std::size_t>(std::find(name.begin(), name.end(), '\0') - name.begin())};
}

OpenedPeriod open_period(std::span<const std::byte> bytes) noexcept {
  OpenedPeriod opened;
  opened.fault = check_period_frame(bytes);
  if (!opened) return opened;
  opened.fault = check_period_header(*reinterpret_cast<const PeriodHeader*>(bytes.data()));
  if (!opened) return opened;
  const PeriodView view = view_of(bytes.data());
  opened.fault = check_times(view, &opened.index);
  if (opened) opened.fault = check_objects(view, &opened.index);
  if (!opened) return opened;
  opened.index = 0;
  opened.view = view;
  return opened;
}

}  // namespace terrace::wire
