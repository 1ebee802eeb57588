// How fast one direction of a link is, from transfers that were seen to end: time = latency + bytes / rate,
// by least squares over what was seen lately. Transfers follow one another in the direction's queue, so what
// a transfer took begins when the one before it ended. Pure; one thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>

namespace terrace::liballoc::offload {

class LinkSpeed {
 public:
  static constexpr std::uint64_t least_bytes = std::uint64_t{64} << 10;  // below it a transfer tells nothing
  static constexpr unsigned least_transfers = 4;

  // It could have begun at `begun_ns`, and was seen to end at `ended_ns`.
  void note(std::uint64_t bytes, std::uint64_t begun_ns, std::uint64_t ended_ns) {
    const std::uint64_t begin = std::max(begun_ns, last_end_ns_);
    last_end_ns_ = std::max(last_end_ns_, ended_ns);
    if (bytes < least_bytes || ended_ns <= begin) return;
    const auto x = static_cast<double>(bytes), y = static_cast<double>(ended_ns - begin);
    for (double* sum : {&n_, &x_, &y_, &xx_, &xy_}) *sum *= 1 - 1.0 / memory;
    n_ += 1, x_ += x, y_ += y, xx_ += x * x, xy_ += x * y;
    seen_ = std::min(seen_ + 1, least_transfers);
  }

  bool is_known() const { return seen_ >= least_transfers; }
  // Both of what is known. Where all transfers were of about one size, or disturbed, no latency can be told
  // apart from the rate, and is part of it.
  double bytes_per_second() const { return has_latency() ? 1e9 / slope() : 1e9 * x_ / y_; }
  double latency_us() const { return has_latency() ? (y_ - slope() * x_) / n_ / 1e3 : 0; }

 private:
  static constexpr double memory = 256;  // transfers

  double spread() const { return n_ * xx_ - x_ * x_; }
  double slope() const { return (n_ * xy_ - x_ * y_) / spread(); }  // ns for a byte
  bool has_latency() const {
    return spread() > 0.05 * n_ * xx_ && slope() > 0 && slope() * x_ < y_ && slope() * x_ > y_ / 2;
  }

  double n_ = 0, x_ = 0, y_ = 0, xx_ = 0, xy_ = 0;
  std::uint64_t last_end_ns_ = 0;
  unsigned seen_ = 0;
};

}  // namespace terrace::liballoc::offload
