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

// Bytes a second of one direction of the drive while it was busy, over the last transfers: all bytes by all
// of the time. Of transfers that are found done together the first has all the time and the others none, so
// no single one says anything.
class DeviceSpeed {
 public:
  // `ns`: since the transfer was submitted, or the one before it was done if that was later.
  void note(std::uint64_t bytes, std::uint64_t ns) {
    if (bytes_ >= most_bytes) {
      bytes_ /= 2;
      ns_ /= 2;
    }
    bytes_ += bytes;
    ns_ += ns;
  }
  // 0: not known yet.
  std::uint64_t bytes_per_second() const {
    if (bytes_ < least_bytes || ns_ == 0) return 0;
    return static_cast<std::uint64_t>(static_cast<double>(bytes_) * 1e9 / static_cast<double>(ns_));
  }

 private:
  static constexpr std::uint64_t least_bytes = 8 * run_bytes, most_bytes = 256 * run_bytes;
  std::uint64_t bytes_ = 0, ns_ = 0;
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
  void note_copied(const TierOperation& op, tiers::Medium medium);
  void tell_codec(const TierOperation& op, std::uint64_t now_ns, std::uint64_t ns);
  std::uint64_t awaited_since(bool write) const;

  Parts parts_;
  std::uint64_t last_write_ns_ = 0;  // when the device was done with one
  std::uint64_t last_read_ns_ = 0;
  DeviceSpeed reading_, writing_;
};

}  // namespace terrace::liballoc
