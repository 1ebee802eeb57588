// What a step of the program looks like to the engine: the tensors that it saves, and when it asks for each
// of them again.
//
//   event      0        1        2        3         4         5
//              begin    save 0   save 1   want 1    want 0    (the next step's begin)
//   interval   ── 0 ──► ── 1 ──► ── 2 ──► ── 3 ──►  ── 4 ──►
//
// Event 0 is the end of the step before; each save and each first request is one more. An interval is named
// after the event that it follows. Tensor 1 is made in interval 1 and used in interval 3. What is asked for
// again lives to the interval of its last request, which is no event of its own. Times are the host's, less
// what it waited for the engine.
//
// Plain and pure; one thread at a time.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace terrace::liballoc::offload {

struct StepEvent {
  bool is_save = false;
  std::uint32_t number = 0;  // of the tensor: so many were saved before it in the step
  friend bool operator==(const StepEvent&, const StepEvent&) = default;
};

struct StepTensor {
  static constexpr std::uint32_t never = std::numeric_limits<std::uint32_t>::max();

  std::uint64_t bytes = 0;
  std::uint32_t saved_at = 0;          // an event
  std::uint32_t first_wanted = never;  // likewise
  std::uint32_t last_wanted = never;   // the interval of the last request
  bool stays = false;                  // it was in use elsewhere: to have moved it freed nothing
};

struct StepShape {
  std::vector<StepTensor> tensors;     // by number
  std::vector<StepEvent> events{{}};   // by ordinal; the first one means nothing
  std::vector<std::uint64_t> busy_ns;  // by interval

  // The same saves and requests in the same order; times and who stays do not count.
  bool is_like(const StepShape& other) const;
};

class StepRecorder {
 public:
  // `now_ns` is a clock of any origin, `waited_ns` a sum that only grows.
  struct Moment {
    std::uint64_t now_ns = 0;
    std::uint64_t waited_ns = 0;
  };

  void saved(std::uint64_t number, std::uint64_t bytes, Moment moment);
  // Whether that was an event: the first request for a tensor of this step.
  bool wanted(std::uint64_t number, bool stays, Moment moment);
  // The step, and the next one begins. Without tensors: nothing was saved, or what happened cannot be told as
  // a sequence (numbers that do not follow one another, as of two threads that save at once).
  StepShape end(Moment moment);

  const StepShape& shape() const { return shape_; }
  // Of the last event.
  std::uint32_t ordinal() const { return static_cast<std::uint32_t>(shape_.events.size() - 1); }

 private:
  void close_interval(Moment moment);

  StepShape shape_;
  Moment last_;
  bool is_sequence_ = true;
};

}  // namespace terrace::liballoc::offload
