// A schedule as bytes: what the daemon writes into a sealed memfd and the job checks once and reads in place.
//
//     0            header_bytes
//     ├── header ──┤ objects … │ entries … │ tiers … │ codecs … ┤ image_bytes
//                   ↑ objects_at           each array at an offset of its own, 8 bytes aligned
//
// Little endian. Only what an entry names is in `objects`, sorted by (birth, place), so that a job finds an
// object when it is born; what persists comes last. Names are cut off by zeros. The checksum (XXH3, 64 bits)
// is over everything behind it.
//
// The reader trusts nothing: a view exists only of an image whose every count, offset, index, ordinal and
// range was looked at, so whoever holds one may index with it. It neither allocates nor throws, may run on
// any thread, and takes O(entries + objects). The bytes must not change afterwards, which the job makes sure
// of with F_SEAL_WRITE before it maps them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "liballoc/wire/result.h"
#include "liballoc/wire/schedule/schedule.h"

namespace terrace::wire {

inline constexpr std::uint64_t image_magic = 0x6c75646568637354;  // "Tschedul"
inline constexpr std::uint32_t image_version = 2;

inline constexpr std::uint32_t most_image_entries = std::uint32_t{1} << 23;
inline constexpr std::uint32_t most_image_objects = std::uint32_t{1} << 23;
inline constexpr std::uint32_t most_image_parts = 64;                 // tiers; codecs
inline constexpr std::uint32_t most_period = std::uint32_t{1} << 30;  // so that a deadline fits
inline constexpr std::uint64_t most_object_bytes = std::uint64_t{1} << 62;

using ImageName = std::array<char, 24>;  // ends with at least one zero

struct ImageTier {
  ImageName name;
  std::uint64_t predicted_peak_bytes;
};
struct ImageCodec {
  ImageName name;
};

struct ImageHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t header_bytes;  // of this struct
  std::uint64_t image_bytes;
  std::uint64_t checksum;  // of the bytes from here on
  std::uint64_t period_hash;
  std::uint32_t period;
  Clock clock;
  Order out_order, in_order;
  std::uint32_t objects, entries, tiers, codecs;  // how many
  std::uint64_t objects_at, entries_at, tiers_at, codecs_at;
  double step_us, late_us, fetch_us, room_us;
  ImageName policy;
};
static_assert(sizeof(ImageHeader) == 160 && sizeof(ImageTier) == 32 && sizeof(ImageCodec) == 24);
inline constexpr std::size_t image_checksum_end = 32;  // the checksum is over what follows it

enum class ImageFault : std::uint8_t {
  none,
  too_short,
  misaligned,
  not_a_schedule,
  other_version,
  wrong_size,
  damaged,
  clock,
  order,
  period,
  counts,
  array,  // `index` is 0 to 3: objects, entries, tiers, codecs
  name,
  prediction,
  object_bytes,  // `index` from here on: of the object or entry
  object_birth,
  object_order,
  entry_order,
  entry_at,
  entry_by,
  entry_object,
  entry_action,
  entry_range,
  entry_tier,
  entry_codec,
  count
};
// A sentence without a full stop that says what is wrong; "" for none. Static.
const char* text_of(ImageFault fault) noexcept;

// Into the image; good as long as its bytes are mapped and unchanged.
struct ScheduleView {
  const ImageHeader* header = nullptr;
  std::span<const ScheduleObject> objects;
  std::span<const ScheduleEntry> entries;
  std::span<const ImageTier> tiers;
  std::span<const ImageCodec> codecs;

  // The index of an object, or objects.size(). O(log n).
  std::size_t find(std::uint32_t birth, std::uint32_t place) const noexcept;
};

struct OpenedSchedule {
  ImageFault fault = ImageFault::none;
  std::uint32_t index = 0;
  ScheduleView view;  // empty with a fault
  explicit operator bool() const noexcept { return fault == ImageFault::none; }
};

std::string_view text_of(const ImageName& name) noexcept;

// The image may be followed by other bytes (a mapping is whole pages).
OpenedSchedule open_schedule(std::span<const std::byte> bytes) noexcept;

// For whoever makes and keeps images; these allocate.
//
// The schedule must say its period, its objects and every deadline (daemon/planner: describe()); what does
// not fit the form is refused with the place. `tiers` and `codecs`: names, as the machine has them; predicted
// peaks may be missing.
Result<std::string> schedule_image(const Schedule& schedule, const std::vector<std::string>& tiers,
                                   const std::vector<std::string>& codecs);
// What is wrong with it, as one sentence with the index; empty for none.
std::string describe_fault(const OpenedSchedule& opened);
// The image as a schedule; its trace has no name.
Schedule schedule_of(const ScheduleView& view);

}  // namespace terrace::wire
