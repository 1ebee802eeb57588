// A slot for each transfer in flight; its number is the token of the tier below.
#include "tiers/adaptors/meter_adaptor.h"

#include <algorithm>
#include <cerrno>

#include "tiers/monotonic_clock.h"

namespace terrace::tiers {

void RecentTransfers::note(std::uint64_t bytes, std::uint64_t ns) noexcept {
  std::uint64_t all_bytes = bytes_.load(std::memory_order_relaxed) + bytes;
  std::uint64_t all_ns = ns_.load(std::memory_order_relaxed) + ns;
  if (all_bytes > window_bytes) {
    const double part = static_cast<double>(window_bytes) / static_cast<double>(all_bytes);
    all_ns = static_cast<std::uint64_t>(static_cast<double>(all_ns) * part);
    all_bytes = window_bytes;
  }
  bytes_.store(all_bytes, std::memory_order_relaxed);
  ns_.store(all_ns, std::memory_order_relaxed);
}

// Here, so that the classes' tables lie in this file alone.
MeterAdaptor::MeterAdaptor(Tier& inner) noexcept : TierAdaptor(inner, "meter") {}

int MeterAdaptor::submit(const Transfer& transfer) noexcept {
  if (moving_.size() == max_queue_depth) return EAGAIN;
  const std::uint64_t begun_ns = monotonic_ns();
  const std::size_t slot = moving_.take({.token = transfer.token,
                                         .bytes = transfer.extent.bytes,
                                         .begun_ns = begun_ns,
                                         .direction = transfer.direction});
  Transfer below = transfer;
  below.token = slot;
  if (const int error = inner_.submit(below)) {
    moving_.release(slot);
    return error;
  }
  if (finishes_in_submit()) moving_[slot].took_ns = monotonic_ns() - begun_ns;
  return 0;
}

std::size_t MeterAdaptor::poll(std::span<Completion> out) noexcept {
  const std::size_t came = inner_.poll(out);
  std::size_t count = 0;
  for (const Completion& one : out.first(came)) {
    if (!moving_.holds(one.token)) continue;
    const Moving moving = moving_[one.token];
    moving_.release(one.token);
    if (one.error == 0) note_done(moving);
    out[count++] = {moving.token, one.error};
  }
  return count;
}

void MeterAdaptor::note_done(const Moving& moving) noexcept {
  Way& way = moving.direction == Direction::read ? reads_ : writes_;
  if (finishes_in_submit()) return way.transfers.note(moving.bytes, moving.took_ns);
  const std::uint64_t now = monotonic_ns();
  way.transfers.note(moving.bytes, now - std::max(way.last_done_ns, moving.begun_ns));
  way.last_done_ns = now;
}

int MeterAdaptor::reopen_after_fork() noexcept {
  moving_.clear();
  return inner_.reopen_after_fork();
}

}  // namespace terrace::tiers
