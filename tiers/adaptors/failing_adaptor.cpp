// Counts calls and alters results.
#include "tiers/adaptors/failing_adaptor.h"

#include <cerrno>
#include <cstring>

namespace terrace::tiers {
namespace {

constexpr int rubbish = 0xdb;

}  // namespace

void FailingAdaptor::fail_nth(Operation operation, std::uint64_t nth, int error) noexcept {
  plan(operation) = {nth, nth, error, plan(operation).calls};
}

void FailingAdaptor::fail_from(Operation operation, std::uint64_t nth, int error) noexcept {
  plan(operation) = {nth, UINT64_MAX, error, plan(operation).calls};
}

void FailingAdaptor::flip_bit_in_nth_read(std::uint64_t nth, std::uint64_t bit) noexcept {
  flipped_read_ = nth;
  flipped_bit_ = bit;
}

void FailingAdaptor::heal() noexcept {
  plans_ = {};
  flipped_read_ = 0;
  lost_.store(false);
}

// Counts one call; the error planned for it, or 0.
int FailingAdaptor::next(Operation operation) noexcept {
  Plan& planned = plan(operation);
  const std::uint64_t call = ++planned.calls;
  return planned.first != 0 && call >= planned.first && call <= planned.last ? planned.error : 0;
}

int FailingAdaptor::reserve(std::uint64_t bytes, Extent* out) noexcept {
  if (const int error = next(Operation::reserve)) return error;
  return lost_.load() ? EIO : inner_.reserve(bytes, out);
}

int FailingAdaptor::submit(const Transfer& transfer) noexcept {
  if (const int error = next(Operation::submit)) return error;
  if (slots_.size() >= queue_depth()) return EAGAIN;
  Transfer inner = transfer;
  inner.token = slots_.take({.transfer = transfer});
  if (const int error = inner_.submit(inner)) {
    slots_.release(inner.token);
    return error;
  }
  Slot& slot = slots_[inner.token];
  const bool reads = transfer.direction == Direction::read;
  slot.error = next(reads ? Operation::read : Operation::write);
  slot.flip = reads && flipped_read_ != 0 && plan(Operation::read).calls == flipped_read_;
  return 0;
}

std::size_t FailingAdaptor::poll(std::span<Completion> out) noexcept {
  const std::size_t count = inner_.poll(out);
  for (Completion& completion : out.first(count)) completion = finish(completion);
  return count;
}

Completion FailingAdaptor::finish(const Completion& inner) noexcept {
  const Slot slot = slots_[inner.token];
  slots_.release(inner.token);
  const int error = lost_.load() ? EIO : slot.error != 0 ? slot.error : inner.error;
  if (error != 0 && slot.transfer.direction == Direction::read)
    std::memset(slot.transfer.buffer, rubbish, slot.transfer.extent.bytes);
  if (error == 0 && slot.flip) flip_bit(slot.transfer);
  return {slot.transfer.token, error};
}

void FailingAdaptor::flip_bit(const Transfer& transfer) const noexcept {
  const std::uint64_t bit = flipped_bit_ % (transfer.extent.bytes * 8);
  static_cast<unsigned char*>(transfer.buffer)[bit / 8] ^= static_cast<unsigned char>(1U << (bit % 8));
}

int FailingAdaptor::reopen_after_fork() noexcept {
  slots_.clear();
  return inner_.reopen_after_fork();
}

}  // namespace terrace::tiers
