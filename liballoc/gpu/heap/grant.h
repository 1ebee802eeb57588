// What a daemon grants a heap of the device's memory, and what the heap would use of it if it had it. Bytes.
//
// A refusal is final for most programs, and a grant follows demand within a fraction of a second. So a
// request that only the grant stands against waits for a larger one, a bounded time, and not twice for what
// was waited for in vain under the same grant. Not thread-safe: under the heap's lock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

namespace terrace::liballoc::gpu {

class Grant {
 public:
  static constexpr std::uint64_t no_limit = ~std::uint64_t{0};
  // Of demand() after a request went without: some seconds of the session's rounds.
  static constexpr unsigned rounds_remembered = 50;

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  // True: it is another one than before.
  bool set(std::uint64_t bytes, bool is_connected) {
    is_connected_ = is_connected;
    if (bytes == bytes_) return false;
    bytes_ = bytes;
    vain_bytes_ = no_limit;
    return true;
  }
  void disconnected() { is_connected_ = false; }

  // Whether a request of so many bytes should wait: there is somebody who may grant more.
  [[nodiscard]] bool is_worth_waiting(std::uint64_t bytes) const {
    return is_connected_ && bytes < vain_bytes_;
  }
  void went_without(std::uint64_t bytes) {
    missed_ = std::max(missed_, bytes);
    rounds_left_ = rounds_remembered;
  }
  void waited_in_vain(std::uint64_t bytes) { vain_bytes_ = std::min(vain_bytes_, bytes); }

  // What it would use, of a heap that uses `used_bytes` and may have `most_bytes` by its own settings: the
  // most of the last rounds, since a step frees and allocates again, and what was missed then. Once a round.
  std::uint64_t demand(std::uint64_t used_bytes, std::uint64_t most_bytes) {
    if (rounds_left_ == 0 || --rounds_left_ == 0) missed_ = 0;
    if (++rounds_ % rounds_remembered == 0) peak_before_ = std::exchange(peak_, 0);
    peak_ = std::max(peak_, used_bytes);
    const std::uint64_t used = std::max(peak_, peak_before_);
    return used + std::min(missed_, most_bytes - std::min(most_bytes, used));
  }

 private:
  std::uint64_t bytes_ = no_limit;
  bool is_connected_ = false;
  std::uint64_t missed_ = 0;  // the largest request that went without lately
  unsigned rounds_left_ = 0;
  std::uint64_t rounds_ = 0;
  std::uint64_t peak_ = 0, peak_before_ = 0;  // of these rounds and of those before
  std::uint64_t vain_bytes_ = no_limit;       // from here on nothing is waited for
};

}  // namespace terrace::liballoc::gpu
