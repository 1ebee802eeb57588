// Accounts: what the pager tells of itself, to the statistics, to the daemon's event ring, and to the person
// whose data was lost. Nothing here changes a run. Belongs to who holds the gate.
#pragma once

#include <algorithm>
#include <cstdint>

#include "liballoc/agent/client/client.h"
#include "liballoc/paging/runs/block_table.h"
#include "liballoc/paging/runs/run_table.h"
#include "liballoc/terrace.h"
#include "tiers/tier.h"

namespace terrace::liballoc {

class Accounts {
 public:
  constexpr Accounts(const RunTable& runs, const BlockTable& blocks) : runs_(runs), blocks_(blocks) {}
  // nullptr: nobody to tell, as in a forked child. It outlives the pager.
  void tell_to(Client* client) { client_ = client; }

  // Bytes came from the tier. `is_refault`: they had been written, and left a moment ago.
  void note_read(tiers::Medium from, std::uint64_t bytes, bool is_refault) {
    const bool is_of_drive = from == tiers::Medium::drive;
    (from == tiers::Medium::dram ? counts.fetched_bytes
     : is_of_drive               ? counts.read_bytes
                                 : counts.nvm_read_bytes) += bytes;
    counts.refaulted_bytes += is_refault && is_of_drive ? bytes : 0;
  }
  void note_written(tiers::Medium to, std::uint64_t bytes) {
    (to == tiers::Medium::dram    ? counts.kept_bytes
     : to == tiers::Medium::drive ? counts.written_bytes
                                  : counts.nvm_written_bytes) += bytes;
  }
  // A thread waited for a run.
  void note_wait(std::uint64_t since_ns, std::uint64_t now_ns) {
    counts.stall_ns += now_ns - since_ns;
    waited_ns_ += now_ns - std::min(now_ns, std::max(since_ns, last_wait_ended_ns_));
    last_wait_ended_ns_ = now_ns;
  }
  // How long threads have waited for runs, where several waited at a time once: what was not computed
  // meanwhile.
  std::uint64_t waited_ns() const { return waited_ns_; }
  // What has happened to run n.
  void tell(wire::EventKind kind, std::uint32_t n, std::uint64_t bytes) const;
  // A block came or went.
  void tell_block(wire::EventKind kind, const KnownBlock& block) const;
  void tell_pool_full(std::uint64_t used_bytes) const;
  // The program begins a step of kind `phase`, of so many events; none: it has left what it repeated.
  void tell_step(std::uint32_t phase, std::uint32_t events) const;
  // To standard error: run n is lost, from `place` where that is not empty.
  void report_loss(std::uint32_t n, const char* why, const char* place, int error) const;

  // Counters of what was done; each part counts what it does.
  terrace_statistics counts{};

 private:
  const RunTable& runs_;
  const BlockTable& blocks_;
  Client* client_ = nullptr;
  std::uint64_t waited_ns_ = 0;
  std::uint64_t last_wait_ended_ns_ = 0;
};

}  // namespace terrace::liballoc
