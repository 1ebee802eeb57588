#include "liballoc/paging/transfers/device_times.h"

#include <algorithm>
#include <span>

#include "liballoc/base/os.h"
#include "liballoc/paging/transfers/transfers.h"

namespace terrace::liballoc {

// What the device took for this transfer: from when it had it, and was done with the one before.
void DeviceTimes::note_done(TierOperation& op) {
  if (op.is_piece()) return;
  if (op.kind == TierOperation::Kind::read) parts_.operations.note_arrived(op);
  if (const tiers::Medium medium = parts_.extents.medium_of(op.slot_offset); medium != tiers::Medium::drive)
    return note_copied(op, medium);
  const std::uint64_t now = os::now_ns();
  std::uint64_t& last = op.is_write() ? last_write_ns_ : last_read_ns_;
  const std::uint64_t ns = now - std::max(last, op.submitted_ns);
  last = now;
  (op.is_write() ? writing_ : reading_).note(op.is_compressed() ? run_bytes : op.bytes, ns);
  if (op.kind == TierOperation::Kind::read) parts_.operations.note_device_time(op, ns);
  if (parts_.codec.is_on()) tell_codec(op, now, ns);
}

// What is kept in memory says nothing of the drive, and NVM nothing of DRAM. It was copied when it was
// submitted: what the agent did since then is no part of it.
void DeviceTimes::note_copied(const TierOperation& op, tiers::Medium medium) {
  if (!op.is_compressed() || medium != tiers::Medium::dram) return;
  op.is_write() ? parts_.codec.kept(op.bytes, op.in_submit_ns)
                : parts_.codec.fetched(op.bytes, op.in_submit_ns);
}

// And how much of that a thread waited for the device, which it does not do while its data is checked or
// decoded.
void DeviceTimes::tell_codec(const TierOperation& op, std::uint64_t now_ns, std::uint64_t ns) {
  const std::uint64_t awaited_ns = std::min(ns, now_ns - std::min(now_ns, awaited_since(op.is_write())));
  op.is_write() ? parts_.codec.wrote(op.bytes, ns, awaited_ns) : parts_.codec.read(op.bytes, ns, awaited_ns);
}

// Since when a thread waits for what the device writes, or for what it reads: UINT64_MAX if none does.
std::uint64_t DeviceTimes::awaited_since(bool write) const {
  std::uint64_t since = UINT64_MAX;
  const auto count = [&](std::uint32_t n) {
    const Run& r = parts_.runs[n];
    if (r.waiting) since = std::min(since, r.wait_since_ns);
  };
  for (const TierOperation& op : std::span<const TierOperation>(parts_.operations.all()))
    if (op.busy && !op.is_computed && op.is_write() == write && op.run != none) count(op.run);
  // The first in line waits until it may be read, or else for memory, which is free when it is written.
  const bool may_be_read = parts_.operations.reads() < Transfers::reads_in_flight;
  if (!parts_.line.is_empty() && may_be_read == write) count(parts_.line.front());
  return since;
}

}  // namespace terrace::liballoc
