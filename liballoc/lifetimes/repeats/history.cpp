#include "liballoc/lifetimes/repeats/history.h"

namespace terrace::liballoc {

std::uint32_t least_period(const History& h, std::uint32_t length) {
  std::uint32_t least = length;
  const auto consider = [&](std::uint32_t p) {
    if (p < least && repeats(h, h.count(), length - p, p)) least = p;
  };
  for (std::uint32_t p = 1; p * p <= length; ++p) {
    if (length % p != 0) continue;
    consider(p);
    consider(length / p);
  }
  return least;
}

std::uint32_t distinct_tokens(const History& h, std::uint32_t length, std::uint32_t most) {
  std::uint32_t seen[64];
  std::uint32_t count = 0;
  for (std::uint32_t i = h.count() - length; i != h.count() && count < most; ++i) {
    const std::uint32_t token = h.token(i);
    if (std::find(seen, seen + count, token) == seen + count) seen[count++] = token;
  }
  return count;
}

}  // namespace terrace::liballoc
