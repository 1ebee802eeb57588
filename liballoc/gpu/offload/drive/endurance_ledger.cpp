#include "liballoc/gpu/offload/drive/endurance_ledger.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "tiers/records/state_directory.h"

namespace terrace::liballoc::offload {
namespace {

constexpr std::uint64_t patience_ns = 2'000'000'000;

std::uint64_t rest(std::uint64_t whole, std::uint64_t part) { return whole - std::min(whole, part); }

}  // namespace

std::uint64_t EnduranceLedger::room(const records::Endurance& written) const {
  std::uint64_t room = rest(records::most_written_bytes, written.total_bytes);
  if (per_day_bytes_ != 0) room = std::min(room, rest(per_day_bytes_, written.today_bytes()));
  if (budget_bytes_ != 0) room = std::min(room, rest(budget_bytes_, written.total_bytes));
  return room;
}

// What is charged ahead and not written is given back at the end, and on another day, which it was not
// charged to. `needed` is charged, or a step where there is room for one.
int EnduranceLedger::apply(std::uint64_t needed, bool gives_back, records::Endurance* written,
                           std::uint64_t* charged) const {
  const bool is_new_day = written->day != charge_day_;
  const std::uint64_t back = gives_back || is_new_day ? charged_bytes_ : 0;
  const std::uint64_t kept = charged_bytes_ - back;
  if (is_new_day)
    written->total_bytes -= std::min(back, rest(written->total_bytes, written->today_bytes()));
  else
    written->give_back(::geteuid(), back);
  std::uint64_t charge = rest(needed, kept);
  const std::uint64_t room_bytes = room(*written);
  if (charge > room_bytes) return EDQUOT;
  if (charge != 0) charge = std::min(std::max(charge, step_bytes), room_bytes);
  written->charge(::geteuid(), charge);
  *charged = kept + charge;
  return 0;
}

int EnduranceLedger::update(std::uint64_t needed, bool gives_back) {
  std::uint64_t charged = 0;
  records::Endurance now;
  const int error = file_.update(records::day_of_clock(), patience_ns, [&](records::Endurance* written) {
    const int refused = apply(needed, gives_back, written, &charged);
    now = *written;
    return refused;
  });
  if (error != 0) return error;
  charged_bytes_ = charged;
  charge_day_ = now.day;
  written_ = std::move(now);
  return 0;
}

int EnduranceLedger::open(const std::string& directory, std::uint64_t per_day_bytes,
                          std::uint64_t total_bytes, std::string* reason) {
  per_day_bytes_ = per_day_bytes;
  budget_bytes_ = total_bytes;
  const int error = file_.open(records::state_directory(), directory, records::day_of_clock(),
                               records::Outlives::machine, reason);
  return error != 0 ? error : update(0, false);
}

void EnduranceLedger::close() {
  if (file_.is_open() && charged_bytes_ != 0) update(0, true);
  file_.close();
}

int EnduranceLedger::take(std::uint64_t bytes) {
  if (!file_.is_open()) return 0;
  if (charged_bytes_ < bytes || charge_day_ < records::day_of_clock())
    if (const int error = update(bytes, false); error != 0) return error;
  charged_bytes_ -= bytes;
  return 0;
}

std::uint64_t EnduranceLedger::today_bytes() const { return rest(written_.today_bytes(), charged_bytes_); }
std::uint64_t EnduranceLedger::total_bytes() const { return rest(written_.total_bytes, charged_bytes_); }

}  // namespace terrace::liballoc::offload
