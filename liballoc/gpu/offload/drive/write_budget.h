// How much an engine or an optimizer may still write to its drive. One of two counts it:
//
//   a file of its own      the user's record, which all of his jobs share (endurance_ledger.h)
//   a pool of the daemon's the daemon, which leases: it says how far the count of written bytes may go
//
// Bytes are taken before they are written, and given back if the drive was never asked to write them.
//
// Not thread-safe: the engine's lock guards it.
#pragma once

#include <cstdint>
#include <string>

#include "liballoc/gpu/offload/drive/endurance_ledger.h"

namespace terrace::liballoc::offload {

class WriteBudget {
 public:
  static constexpr std::uint64_t no_limit = ~std::uint64_t{0};

  // By the user's record of the drive. As EnduranceLedger::open().
  int open_ledger(const std::string& directory, std::uint64_t per_day_bytes, std::uint64_t total_bytes,
                  std::string* reason) {
    return ledger_.open(directory, per_day_bytes, total_bytes, reason);
  }
  // By leases, from now on; the first is without a limit.
  void use_lease() { is_leased_ = true; }
  bool is_leased() const { return is_leased_; }
  // How far written_bytes() may go. What was taken before stays taken.
  void set_lease(std::uint64_t most_bytes) { most_bytes_ = most_bytes; }

  // 0, EDQUOT when that would pass the budget, or the errno of the record.
  int take(std::uint64_t bytes);
  void untake(std::uint64_t bytes);
  // Of what was taken, the drive was asked to write so many: whatever came of it, they count.
  void submitted(std::uint64_t bytes) { written_bytes_ += bytes; }

  std::uint64_t written_bytes() const { return written_bytes_; }
  // Of the user's record, where that counts.
  std::uint64_t today_bytes() const { return ledger_.today_bytes(); }
  std::uint64_t total_bytes() const { return ledger_.total_bytes(); }

 private:
  EnduranceLedger ledger_;
  bool is_leased_ = false;
  std::uint64_t most_bytes_ = no_limit;
  std::uint64_t taken_bytes_ = 0;  // of leases, written or not
  std::uint64_t written_bytes_ = 0;
};

}  // namespace terrace::liballoc::offload
