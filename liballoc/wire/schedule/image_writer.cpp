// Images from schedules and back. What is written is opened before it is handed out, so that the rules stand
// in one place, the reader.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "liballoc/wire/schedule/image.h"

namespace terrace::wire {
namespace {

constexpr std::uint32_t unnamed = std::numeric_limits<std::uint32_t>::max();

// The objects that entries name, in the image's order, and where each one of the schedule went.
struct Named {
  std::vector<ScheduleObject> objects;
  std::vector<std::uint32_t> index;  // of the schedule's object; unnamed
};

std::string what_is_missing(const Schedule& schedule) {
  if (schedule.period == 0) return "the schedule does not say its period";
  if (schedule.entries.size() > most_image_entries) return "the schedule has too many entries";
  if (!schedule.variants.empty())
    return "the schedule chooses variants of operations, and an image cannot say them: a job runs its "
           "operations as it does";
  if (!schedule.operations.empty())
    return "the schedule runs the operations in an order of its own, and an image cannot say it: a job runs "
           "its operations as it does";
  for (std::size_t i = 0; i < schedule.entries.size(); ++i) {
    const ScheduleEntry& e = schedule.entries[i];
    const std::string place = "entries[" + std::to_string(i) + "]: ";
    if (e.object >= schedule.objects.size()) return place + "there is no object " + std::to_string(e.object);
    if (e.by == no_deadline) return place + "it has no deadline";
    if (e.action == Action::stage)
      return place + "it moves between far tiers, which an image cannot say: a job moves to and from memory";
  }
  return {};
}

Named named_objects(const Schedule& schedule) {
  Named named{{}, std::vector<std::uint32_t>(schedule.objects.size(), unnamed)};
  std::vector<std::uint32_t> all;
  for (const ScheduleEntry& e : schedule.entries) {
    if (named.index[e.object] != unnamed) continue;
    named.index[e.object] = 0;
    all.push_back(e.object);
  }
  std::sort(all.begin(), all.end(), [&](std::uint32_t a, std::uint32_t b) {
    const ScheduleObject &x = schedule.objects[a], &y = schedule.objects[b];
    return x.birth != y.birth ? x.birth < y.birth : x.place < y.place;
  });
  for (const std::uint32_t object : all) {
    named.index[object] = static_cast<std::uint32_t>(named.objects.size());
    named.objects.push_back(schedule.objects[object]);
  }
  return named;
}

bool set_name(std::string_view text, ImageName* name) {
  *name = {};
  if (text.size() >= name->size() || text.find('\0') != std::string_view::npos) return false;
  std::copy(text.begin(), text.end(), name->begin());
  return true;
}

class ImageWriter {
 public:
  explicit ImageWriter(const Schedule& schedule) : schedule_(schedule) { bytes_.resize(sizeof(ImageHeader)); }

  std::string add_parts(const std::vector<std::string>& tiers, const std::vector<std::string>& codecs) {
    std::vector<ImageTier> tier_parts;
    for (const std::string& name : tiers) {
      ImageTier tier{};
      if (!set_name(name, &tier.name)) return too_long("tier", name);
      const std::vector<std::uint64_t>& peaks = schedule_.predicted.tier_peak_bytes;
      if (tier_parts.size() < peaks.size()) tier.predicted_peak_bytes = peaks[tier_parts.size()];
      tier_parts.push_back(tier);
    }
    std::vector<ImageCodec> codec_parts;
    for (const std::string& name : codecs) {
      ImageCodec codec{};
      if (!set_name(name, &codec.name)) return too_long("codec", name);
      codec_parts.push_back(codec);
    }
    add(tier_parts, &header_.tiers_at, &header_.tiers);
    add(codec_parts, &header_.codecs_at, &header_.codecs);
    return {};
  }

  void add_objects_and_entries() {
    const Named named = named_objects(schedule_);
    std::vector<ScheduleEntry> entries = schedule_.entries;
    for (ScheduleEntry& e : entries) {
      e.object = named.index[e.object];
      const std::uint64_t all = named.objects[e.object].bytes;
      if (e.bytes == whole_object && e.begin <= all) e.bytes = all - e.begin;
    }
    add(named.objects, &header_.objects_at, &header_.objects);
    add(entries, &header_.entries_at, &header_.entries);
  }

  std::string finish() {
    header_.magic = image_magic;
    header_.version = image_version;
    header_.header_bytes = sizeof(ImageHeader);
    header_.image_bytes = bytes_.size();
    header_.period_hash = schedule_.period_hash;
    header_.period = schedule_.period;
    header_.clock = schedule_.clock;
    header_.out_order = schedule_.out_order;
    header_.in_order = schedule_.in_order;
    header_.step_us = schedule_.predicted.step_us;
    header_.late_us = schedule_.predicted.late_us;
    header_.fetch_us = schedule_.predicted.fetch_us;
    header_.room_us = schedule_.predicted.room_us;
    if (!set_name(schedule_.policy, &header_.policy)) return too_long("policy", schedule_.policy);
    std::memcpy(bytes_.data(), &header_, sizeof header_);
    header_.checksum = XXH3_64bits(bytes_.data() + image_checksum_end, bytes_.size() - image_checksum_end);
    std::memcpy(bytes_.data(), &header_, sizeof header_);
    return {};
  }

  std::string take() { return std::move(bytes_); }

 private:
  const Schedule& schedule_;
  ImageHeader header_{};
  std::string bytes_;

  template <class T>
  void add(const std::vector<T>& parts, std::uint64_t* at, std::uint32_t* count) {
    static_assert(sizeof(T) % 8 == 0);
    *at = bytes_.size();
    *count = static_cast<std::uint32_t>(parts.size());
    bytes_.append(reinterpret_cast<const char*>(parts.data()), parts.size() * sizeof(T));
  }

  static std::string too_long(const char* what, const std::string& name) {
    return std::string("the name of ") + what + " '" + name + "' is longer than " +
           std::to_string(ImageName{}.size() - 1) + " bytes, or has a zero in it";
  }
};

}  // namespace

Result<std::string> schedule_image(const Schedule& schedule, const std::vector<std::string>& tiers,
                                   const std::vector<std::string>& codecs) {
  std::string wrong = what_is_missing(schedule);
  ImageWriter writer(schedule);
  if (wrong.empty()) wrong = writer.add_parts(tiers, codecs);
  if (!wrong.empty()) return refused<std::string>(std::move(wrong));
  writer.add_objects_and_entries();
  wrong = writer.finish();
  if (!wrong.empty()) return refused<std::string>(std::move(wrong));
  std::string image = writer.take();
  const OpenedSchedule opened = open_schedule(std::as_bytes(std::span(image)));
  if (!opened) return refused<std::string>(describe_fault(opened));
  return ok(std::move(image));
}

std::string describe_fault(const OpenedSchedule& opened) {
  if (opened) return {};
  std::string text = "the image of the schedule cannot be used: ";
  text += text_of(opened.fault);
  if (opened.fault >= ImageFault::object_bytes || opened.fault == ImageFault::array) {
    text += ", number " + std::to_string(opened.index);
  }
  return text;
}

Schedule schedule_of(const ScheduleView& view) {
  Schedule schedule;
  const ImageHeader& h = *view.header;
  schedule.policy = text_of(h.policy);
  schedule.entries.assign(view.entries.begin(), view.entries.end());
  schedule.clock = h.clock;
  schedule.period = h.period;
  schedule.period_hash = h.period_hash;
  schedule.out_order = h.out_order;
  schedule.in_order = h.in_order;
  schedule.objects.assign(view.objects.begin(), view.objects.end());
  schedule.predicted = {h.step_us, h.late_us, h.fetch_us, h.room_us, {}};
  for (const ImageTier& tier : view.tiers)
    schedule.predicted.tier_peak_bytes.push_back(tier.predicted_peak_bytes);
  return schedule;
}

}  // namespace terrace::wire
