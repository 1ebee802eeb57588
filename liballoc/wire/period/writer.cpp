#define XXH_INLINE_ALL
#include <xxhash.h>

#include "liballoc/wire/period/writer.h"

namespace terrace::wire {

std::size_t PeriodWriter::bytes_for(const PeriodCounts& counts) noexcept {
  return sizeof(PeriodHeader) + counts.events * sizeof(PeriodEvent) + counts.objects * sizeof(PeriodObject) +
         counts.uses * sizeof(PeriodUse);
}

PeriodWriter::PeriodWriter(std::span<std::byte> memory, const PeriodCounts& counts) noexcept
    : header_(reinterpret_cast<PeriodHeader*>(memory.data())), bytes_(bytes_for(counts)) {
  std::byte* at = memory.data() + sizeof(PeriodHeader);
  events_ = {reinterpret_cast<PeriodEvent*>(at), counts.events};
  at += counts.events * sizeof(PeriodEvent);
  objects_ = {reinterpret_cast<PeriodObject*>(at), counts.objects};
  at += counts.objects * sizeof(PeriodObject);
  uses_ = {reinterpret_cast<PeriodUse*>(at), counts.uses};
}

void PeriodWriter::finish() noexcept {
  header_->magic = period_magic;
  header_->version = period_version;
  header_->header_bytes = sizeof(PeriodHeader);
  header_->image_bytes = bytes_;
  header_->events = static_cast<std::uint32_t>(events_.size());
  header_->objects = static_cast<std::uint32_t>(objects_.size());
  header_->uses = static_cast<std::uint32_t>(uses_.size());
  const auto* const bytes = reinterpret_cast<const std::byte*>(header_);
  header_->checksum = XXH3_64bits(bytes + period_checksum_end, bytes_ - period_checksum_end);
}

}  // namespace terrace::wire
