// Who takes what was learned of a period (wire/period/period.h), to have it planned. Called by the agent's
// thread, with the gate: it may not wait.
#pragma once

#include <cstdint>

namespace terrace::liballoc {

struct LearnedPeriod {
  int fd = -1;  // a memfd sealed against writing, growing and shrinking; the caller's, who closes it
  std::uint32_t phase = 0;
  std::uint64_t hash = 0;
  std::uint64_t image_bytes = 0;
};

class PeriodSink {
 public:
  // Whether anybody plans now. Nothing is learned for nobody.
  virtual bool wants_periods() const = 0;
  // The policy that the job asks for (wire/period/policy_names.h); "": whichever the planner has.
  virtual const char* policy() const = 0;
  // 0: it is on its way. EAGAIN: not now, ask again. Any other errno: this image will never go.
  virtual int send(const LearnedPeriod& period) = 0;

 protected:
  constexpr PeriodSink() = default;
  ~PeriodSink() = default;
};

}  // namespace terrace::liballoc
