// How long the device takes: for the codec, which compresses where the device is what is waited for, for the
// depth of reads, and for whoever plans transfers. Belongs to who holds the gate.
#pragma once

#include <cstdint>

#include "liballoc/paging/memory/placement.h"
#include "liballoc/paging/runs/run_table.h"
#include "liballoc/paging/transfers/extents.h"
#include "liballoc/paging/transfers/operations.h"
#include "liballoc/paging/transfers/run_codec.h"
#include "liballoc/paging/waiting_line.h"

namespace terrace::liballoc {

// Bytes a second of one direction of the drive while it was busy, over the last transfers. One that began
// before the one ahead of it was done has kept the device busy all its time; the others say what a single
// transfer takes, and count as long as there are none of those.
class DeviceSpeed {
 public:
  void note(std::uint64_t bytes, std::uint64_t ns, bool is_queued) {
    Sum& sum = is_queued ? queued_ : single_;
    if (sum.bytes >= most_bytes) sum = {sum.bytes / 2, sum.ns / 2};
    sum.bytes += bytes;
    sum.ns += ns;
  }
  // 0: not known yet.
  std::uint64_t bytes_per_second() const {
    const Sum& sum = queued_.bytes >= least_bytes ? queued_ : single_;
    if (sum.bytes < least_bytes || sum.ns == 0) return 0;
    return static_cast<std::uint64_t>(static_cast<double>(sum.bytes) * 1e9 / static_cast<double>(sum.ns));
  }

 private:
  static constexpr std::uint64_t least_bytes = 8 * run_bytes, most_bytes = 128 * run_bytes;
  struct Sum {
    std::uint64_t bytes = 0, ns = 0;
  };
  Sum queued_, single_;
};

class DeviceTimes {
 public:
  struct Parts {
    const RunTable& runs;
    OperationTable& operations;
    const WaitingLine& line;
    RunCodec& codec;
    Extents& extents;
  };
  constexpr explicit DeviceTimes(const Parts& parts) : parts_(parts) {}

  // The device is done with all of an operation, without an error.
  void note_done(TierOperation& op);
  // Of whole runs: what is compressed counts as long as it was before.
  const DeviceSpeed& reading() const { return reading_; }
  const DeviceSpeed& writing() const { return writing_; }

 private:
  void note_copied(TierOperation& op, std::uint64_t ns);
  void tell_codec(const TierOperation& op, std::uint64_t now_ns, std::uint64_t ns);
  std::uint64_t awaited_since(bool write) const;

  Parts parts_;
  std::uint64_t last_write_ns_ = 0;  // when the device was done with one
  std::uint64_t last_read_ns_ = 0;
  DeviceSpeed reading_, writing_;
};

}  // namespace terrace::liballoc
