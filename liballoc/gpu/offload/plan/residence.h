// How much device memory saved tensors take while the heuristic rules: what a plan has to be content with
// where nobody set a limit. Counted as a plan counts it (plan_run.h). Pure; one thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "liballoc/gpu/offload/plan/step_shape.h"

namespace terrace::liballoc::offload {

class Residence {
 public:
  // `like`: what the last step looked like, which says until when a tensor is used.
  void begin_step(const StepShape& like) {
    uses_end_.assign(like.events.size(), {});
    for (std::uint32_t number = 0; number < like.tensors.size(); ++number)
      if (like.tensors[number].last_wanted != StepTensor::never)
        uses_end_[like.tensors[number].last_wanted].push_back(number);
    tensors_.clear();
    bytes_ = peak_bytes_ = events_ = 0;
  }
  void saved(std::uint64_t bytes) {
    end_uses();
    tensors_.push_back({bytes, true});
    add(bytes);
  }
  void wanted() { end_uses(); }  // an event
  void gone(std::uint64_t number) {
    if (number >= tensors_.size() || !tensors_[number].is_here) return;
    tensors_[number].is_here = false;
    bytes_ -= tensors_[number].bytes;
  }
  void back(std::uint64_t number) {
    if (number >= tensors_.size() || tensors_[number].is_here) return;
    tensors_[number].is_here = true;
    add(tensors_[number].bytes);
  }
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t peak_bytes() const { return peak_bytes_; }

 private:
  struct Tensor {
    std::uint64_t bytes;
    bool is_here;
  };
  void add(std::uint64_t bytes) {
    bytes_ += bytes;
    peak_bytes_ = std::max(peak_bytes_, bytes_);
  }
  // Of the interval that a new event ends: as many events as there were calls of saved() and wanted().
  void end_uses() {
    if (events_ < uses_end_.size())
      for (const std::uint32_t number : uses_end_[events_]) gone(number);
    ++events_;
  }

  std::vector<Tensor> tensors_;
  std::vector<std::vector<std::uint32_t>> uses_end_;  // by interval
  std::uint64_t events_ = 0;                          // of the step, but its begin: the interval
  std::uint64_t bytes_ = 0, peak_bytes_ = 0;
};

}  // namespace terrace::liballoc::offload
