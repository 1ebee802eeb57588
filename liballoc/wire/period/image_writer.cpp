// Images of periods for tools and tests. What is written is opened before it is handed out, so that the rules
// stand in one place, the reader.
#include <algorithm>

#include "liballoc/wire/period/image.h"
#include "liballoc/wire/period/writer.h"

namespace terrace::wire {

Result<std::string> period_image(const PeriodDraft& draft) {
  const PeriodCounts counts{static_cast<std::uint32_t>(draft.events.size()),
                            static_cast<std::uint32_t>(draft.objects.size()),
                            static_cast<std::uint32_t>(draft.uses.size())};
  std::string bytes(PeriodWriter::bytes_for(counts), '\0');
  PeriodWriter writer(std::as_writable_bytes(std::span(bytes)), counts);
  writer.header() = draft.header;
  std::copy(draft.events.begin(), draft.events.end(), writer.events().begin());
  std::copy(draft.objects.begin(), draft.objects.end(), writer.objects().begin());
  std::copy(draft.uses.begin(), draft.uses.end(), writer.uses().begin());
  writer.finish();
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
