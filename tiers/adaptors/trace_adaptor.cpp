// Forward, then record.
#include "tiers/adaptors/trace_adaptor.h"

#include <algorithm>

namespace terrace::tiers {

std::size_t TraceAdaptor::count(Operation operation) const noexcept {
  const auto end = kept_.begin() + static_cast<std::ptrdiff_t>(std::min(calls(), kept_calls));
  return static_cast<std::size_t>(std::count_if(
      kept_.begin(), end, [operation](const Call& call) { return call.operation == operation; }));
}

int TraceAdaptor::reserve(std::uint64_t bytes, Extent* out) noexcept {
  const int error = inner_.reserve(bytes, out);
  record({.operation = Operation::reserve, .extent = error == 0 ? *out : Extent{0, bytes}, .result = error});
  return error;
}

void TraceAdaptor::release(const Extent& extent) noexcept {
  inner_.release(extent);
  record({.operation = Operation::release, .extent = extent});
}

int TraceAdaptor::submit(const Transfer& transfer) noexcept {
  const int error = inner_.submit(transfer);
  record({.operation = Operation::submit,
          .direction = transfer.direction,
          .extent = transfer.extent,
          .token = transfer.token,
          .result = error});
  return error;
}

std::size_t TraceAdaptor::poll(std::span<Completion> out) noexcept {
  const std::size_t count = inner_.poll(out);
  for (const Completion& done : out.first(count))
    record({.operation = Operation::complete, .token = done.token, .result = done.error});
  return count;
}

int TraceAdaptor::reopen_after_fork() noexcept {
  const int error = inner_.reopen_after_fork();
  record({.operation = Operation::reopen_after_fork, .result = error});
  return error;
}

}  // namespace terrace::tiers
