// Images of periods for tools and tests. What is written is opened before it is handed out, so that the rules
// stand in one place, the reader.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

#include "liballoc/wire/period/image.h"

namespace terrace::wire {
namespace {

template <class T>
void append_parts(const std::vector<T>& parts, std::string* bytes) {
  static_assert(sizeof(T) % 8 == 0);
  bytes->append(reinterpret_cast<const char*>(parts.data()), parts.size() * sizeof(T));
}

}  // namespace

Result<std::string> period_image(const PeriodDraft& draft) {
  PeriodHeader header = draft.header;
  std::string bytes(sizeof header, '\0');
  append_parts(draft.events, &bytes);
  append_parts(draft.objects, &bytes);
  append_parts(draft.uses, &bytes);
  header.magic = period_magic;
  header.version = period_version;
  header.header_bytes = sizeof header;
  header.image_bytes = bytes.size();
  header.events = static_cast<std::uint32_t>(draft.events.size());
  header.objects = static_cast<std::uint32_t>(draft.objects.size());
  header.uses = static_cast<std::uint32_t>(draft.uses.size());
  std::memcpy(bytes.data(), &header, sizeof header);
  header.checksum = XXH3_64bits(bytes.data() + period_checksum_end, bytes.size() - period_checksum_end);
  std::memcpy(bytes.data(), &header, sizeof header);
  const OpenedPeriod opened = open_period(std::as_bytes(std::span(bytes)));
  if (!opened) return refused<std::string>(describe_fault(opened));
  return ok(std::move(bytes));
}

std::string describe_fault(const OpenedPeriod& opened) {
  if (opened) return {};
  std::string text = "the image of the period cannot be used: ";
  text += text_of(opened.fault);
  if (opened.fault >= PeriodFault::times) text += ", number " + std::to_string(opened.index);
  return text;
}

}  // namespace terrace::wire
