// The line of runs that wait for a frame or a read: first come, first served. A run is in it at most once, so
// there is always room. Belongs to who holds the gate.
#pragma once

#include <cerrno>
#include <cstdint>

#include "liballoc/base/os.h"
#include "liballoc/paging/runs/run_table.h"

namespace terrace::liballoc {

class WaitingLine {
 public:
  constexpr explicit WaitingLine(RunTable& runs) : runs_(runs) {}
  // 0 or ENOMEM.
  int initialise() {
    ring_ = static_cast<std::uint32_t*>(
        os::map_anonymous(std::size_t{runs_.size()} * sizeof(std::uint32_t), PROT_READ | PROT_WRITE));
    return ring_ == nullptr ? ENOMEM : 0;
  }
  void join(std::uint32_t n) {
    Run& r = runs_[n];
    if (r.queued) return;
    r.queued = true;
    ring_[(head_ + count_++) % runs_.size()] = n;
  }
  std::uint32_t size() const { return count_; }
  bool is_empty() const { return count_ == 0; }
  // The i-th from the front.
  std::uint32_t at(std::uint32_t i) const { return ring_[(head_ + i) % runs_.size()]; }
  std::uint32_t front() const { return at(0); }
  void pop() {
    runs_[front()].queued = false;
    head_ = (head_ + 1) % runs_.size();
    --count_;
  }
  void clear() { count_ = 0; }

 private:
  RunTable& runs_;
  std::uint32_t* ring_ = nullptr;
  std::uint32_t head_ = 0;
  std::uint32_t count_ = 0;
};

}  // namespace terrace::liballoc
