// How much memory an order of a trace's operations needs.
//
// The model is that of instance_of(): a tensor lives from the first operation that names it to the last one
// in the order at hand, a persistent one always, a workspace during its operation. What is alive while an
// operation runs depends only on the set of operations that ran before, not on their order; both searches
// here rest on that.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "liballoc/wire/trace.h"

namespace terrace::planner {

// Tensors by operation without persistent or empty ones, each once, as flat arrays: what the searches walk.
class OrderModel {
 public:
  explicit OrderModel(const wire::Trace& trace);

  [[nodiscard]] std::uint32_t ops() const { return static_cast<std::uint32_t>(workspace_.size()); }
  [[nodiscard]] std::uint32_t tensors() const { return static_cast<std::uint32_t>(bytes_.size()); }
  [[nodiscard]] std::span<const std::uint32_t> names(std::uint32_t op) const {
    return {named_.data() + begin_[op], begin_[op + 1] - begin_[op]};
  }
  [[nodiscard]] std::uint64_t bytes(std::uint32_t tensor) const { return bytes_[tensor]; }
  [[nodiscard]] std::uint64_t workspace(std::uint32_t op) const { return workspace_[op]; }
  [[nodiscard]] std::uint32_t uses(std::uint32_t tensor) const { return uses_[tensor]; }
  [[nodiscard]] std::uint64_t persistent_bytes() const { return persistent_; }

 private:
  std::vector<std::uint64_t> bytes_;  // per tensor of the trace
  std::vector<std::uint32_t> uses_;   // operations that name it
  std::vector<std::uint32_t> begin_;  // per operation, into named_
  std::vector<std::uint32_t> named_;
  std::vector<std::uint64_t> workspace_;
  std::uint64_t persistent_ = 0;
};

// What is alive while operations are run one after the other; without the persistent ones.
class LiveBytes {
 public:
  explicit LiveBytes(const OrderModel& model);

  struct Step {
    std::uint64_t during = 0;  // bytes alive while it runs
    std::uint64_t after = 0;   // and after it
  };
  [[nodiscard]] Step ask(std::uint32_t op) const;
  Step run(std::uint32_t op);

  // Operations that have yet to name the tensor.
  [[nodiscard]] std::uint32_t left(std::uint32_t tensor) const { return left_[tensor]; }
  [[nodiscard]] std::uint64_t live() const { return live_; }

 private:
  const OrderModel* model_;
  std::vector<std::uint32_t> left_;
  std::uint64_t live_ = 0;
};

}  // namespace terrace::planner
