// What jobs of an earlier daemon may have back ahead of others: what is on record, once. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

#include "daemon/base/size.h"
#include "daemon/promises/record.h"

namespace terrace::daemon {

class Claims {
 public:
  explicit Claims(Promises on_record) : left_(std::move(on_record)) {}

  bool has(const JobKey& job) const {
    const auto found = left_.find(job);
    return found != left_.end() && !found->second.is_paused;
  }
  // The limit and the weight that a job had, also a paused one. They hold for whoever joins under its name.
  Promise terms(const JobKey& job) const {
    const auto found = left_.find(job);
    return found == left_.end() ? Promise{} : found->second;
  }
  // Of what a process of the job claims, what is on record. Its processes share the promises; what each was
  // granted is taken off what is left for the others.
  Promise take(const JobKey& job, const Promise& claimed) {
    const auto found = left_.find(job);
    if (found == left_.end() || found->second.is_paused) return {};
    Promise& left = found->second;
    Promise given;
    given.promised_bytes = std::min(left.promised_bytes, claimed.promised_bytes);
    given.granted_bytes = std::min(left.granted_bytes, claimed.granted_bytes);
    given.pool_bytes = std::min(left.pool_bytes, claimed.pool_bytes);
    left.granted_bytes -= given.granted_bytes;
    return given;
  }
  // Jobs were given the time to come back.
  void forget() { left_.clear(); }
  const Promises& left() const { return left_; }

 private:
  Promises left_;
};

}  // namespace terrace::daemon
