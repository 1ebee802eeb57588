#include "liballoc/paging/learning/period_offers.h"

#include <algorithm>
#include <cerrno>

#include "liballoc/base/os.h"
#include "liballoc/base/own_descriptors.h"

namespace terrace::liballoc {
namespace {

// Whether a number differs from what it was by more than a share, in hundredths.
bool differs(std::uint64_t now, std::uint64_t before, std::uint64_t hundredths) {
  const std::uint64_t difference = std::max(now, before) - std::min(now, before);
  return difference * 100 > before * hundredths;
}

class LivePersistent final : public PersistentObjects {
 public:
  struct Parts {
    const RunTable& runs;
    const BlockTable& blocks;
    const PeriodTable& table;
    LiveBlocks& live;
    std::uint32_t slot;  // of the phase
  };
  explicit LivePersistent(const Parts& parts) : parts_(parts) {}

  std::uint32_t next(std::uint32_t* block) override {
    for (; *block < parts_.live.top(); ++*block)
      if (const std::uint16_t number = parts_.live[*block].persistent[parts_.slot]; number != 0)
        return PeriodTable::most_events + number - 1;
    return PeriodTable::none;
  }
  bool is_read_only(std::uint32_t object) override {
    const std::uint32_t block = parts_.table[object].block;
    const KnownBlock& b = parts_.blocks[block];
    bool has_left = false;
    for (std::uint32_t n = b.first_run(); n <= b.last_run(); ++n) {
      const Run& r = parts_.runs[n];
      if (r.block != block || !r.has_slot) continue;
      if (r.was_dirty) return false;
      has_left = true;
    }
    return has_left;
  }

 private:
  Parts parts_;
};

}  // namespace

bool PeriodOffers::is_news(const LearnedPhase& phase) const {
  constexpr std::uint64_t budget_hundredths = 2, speed_hundredths = 20, least_changes = 4, share_of_uses = 20;
  const LearnedPhase::Sent& sent = phase.sent;
  if (sent.hash == 0) return true;
  const DeviceTimes& times = parts_.transfers.times();
  const std::uint64_t changes = phase.table.changes() - sent.changes;
  return differs(parts_.budget.bytes(), sent.budget_bytes, budget_hundredths) ||
         differs(times.reading().bytes_per_second(), sent.read_bytes_per_second, speed_hundredths) ||
         differs(times.writing().bytes_per_second(), sent.write_bytes_per_second, speed_hundredths) ||
         changes > std::max<std::uint64_t>(least_changes, sent.uses / share_of_uses);
}

bool PeriodOffers::write_image(LearnedPhase* phase, std::uint32_t slot, const char* policy) {
  const DeviceTimes& times = parts_.transfers.times();
  const PeriodFacts facts{.budget_bytes = parts_.budget.bytes(),
                          .fixed_bytes = std::max(phase->fixed_pages, phase->fixed_now) * os::page_bytes,
                          .read_bytes_per_second = times.reading().bytes_per_second(),
                          .write_bytes_per_second = times.writing().bytes_per_second(),
                          .policy = policy};
  std::uint32_t uses = 0;
  LivePersistent persistent({parts_.runs, parts_.blocks, phase->table, parts_.live, slot});
  const int error = write_period_image(phase->table, facts, persistent, &waiting_, &uses);
  waiting_as_ = {.hash = error == 0 ? waiting_.hash : phase->table.hash(),
                 .changes = phase->table.changes(),
                 .uses = uses,
                 .budget_bytes = facts.budget_bytes,
                 .read_bytes_per_second = facts.read_bytes_per_second,
                 .write_bytes_per_second = facts.write_bytes_per_second};
  waiting_of_ = phase;
  if (error == E2BIG) phase->sent = waiting_as_;  // not again before something has changed
  return error == 0;
}

void PeriodOffers::give(PeriodSink& sink, std::uint64_t now_ns) {
  constexpr std::uint64_t pause_ns = 1'000'000'000;
  const int error = sink.send(waiting_);
  if (error == EAGAIN) return;
  if (error == 0 && waiting_of_ != nullptr) waiting_of_->sent = waiting_as_;
  close_kept(waiting_.fd);
  waiting_ = {};
  next_ns_ = now_ns + pause_ns;
}

void PeriodOffers::drop() {
  close_kept(waiting_.fd);
  waiting_ = {};
}

void PeriodOffers::offer(PeriodSink& sink, LearnedPhase* phase, std::uint32_t slot, std::uint64_t now_ns) {
  if (now_ns < next_ns_) return;
  if (waiting_.fd >= 0) return give(sink, now_ns);
  if (phase == nullptr || !is_due_) return;
  is_due_ = false;
  if (is_news(*phase) && phase->table.is_complete() && write_image(phase, slot, sink.policy()))
    give(sink, now_ns);
}

}  // namespace terrace::liballoc
