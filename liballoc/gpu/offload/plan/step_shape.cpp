#include "liballoc/gpu/offload/plan/step_shape.h"

#include <algorithm>
#include <utility>

namespace terrace::liballoc::offload {

bool StepShape::is_like(const StepShape& other) const {
  return events == other.events &&
         std::equal(tensors.begin(), tensors.end(), other.tensors.begin(), other.tensors.end(),
                    [](const StepTensor& mine, const StepTensor& theirs) {
                      return mine.bytes == theirs.bytes && mine.last_wanted == theirs.last_wanted;
                    });
}

void StepRecorder::close_interval(Moment moment) {
  const std::uint64_t passed = moment.now_ns - last_.now_ns;
  const std::uint64_t waited = moment.waited_ns - last_.waited_ns;
  shape_.busy_ns.push_back(passed - std::min(passed, waited));
  last_ = moment;
}

void StepRecorder::saved(std::uint64_t number, std::uint64_t bytes, Moment moment) {
  if (number != shape_.tensors.size() || number >= StepTensor::never) is_sequence_ = false;
  if (!is_sequence_) return;
  close_interval(moment);
  shape_.events.push_back({true, static_cast<std::uint32_t>(number)});
  shape_.tensors.push_back({.bytes = bytes, .saved_at = ordinal()});
}

bool StepRecorder::wanted(std::uint64_t number, bool stays, Moment moment) {
  if (number >= shape_.tensors.size()) is_sequence_ = false;
  if (!is_sequence_) return false;
  StepTensor& tensor = shape_.tensors[number];
  const bool is_first = tensor.first_wanted == StepTensor::never;
  if (is_first) {
    close_interval(moment);
    shape_.events.push_back({false, static_cast<std::uint32_t>(number)});
    tensor.first_wanted = ordinal();
    tensor.stays = stays;
  }
  tensor.last_wanted = ordinal();
  return is_first;
}

StepShape StepRecorder::end(Moment moment) {
  close_interval(moment);
  StepShape ended = std::exchange(shape_, {});
  if (!std::exchange(is_sequence_, true)) return {};
  return ended;
}

}  // namespace terrace::liballoc::offload
