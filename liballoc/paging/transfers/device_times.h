// How long the device takes: for the codec, which compresses where the device is what is waited for, and for
// the depth of reads. Belongs to who holds the gate.
#pragma once

#include <cstdint>

#include "liballoc/paging/memory/placement.h"
#include "liballoc/paging/runs/run_table.h"
#include "liballoc/paging/transfers/extents.h"
#include "liballoc/paging/transfers/operations.h"
#include "liballoc/paging/transfers/run_codec.h"
#include "liballoc/paging/waiting_line.h"

namespace terrace::liballoc {

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

 private:
  void note_copied(TierOperation& op, std::uint64_t ns);
  void tell_codec(const TierOperation& op, std::uint64_t now_ns, std::uint64_t ns);
  std::uint64_t awaited_since(bool write) const;

  Parts parts_;
  std::uint64_t last_write_ns_ = 0;  // when the device was done with one
  std::uint64_t last_read_ns_ = 0;
};

}  // namespace terrace::liballoc
