// Makes plans beside the program, on a thread of the lowest priority that begins with the first request and
// ends with the object. One plan at a time; nobody waits for it but the destructor, which lets the plan at
// hand come to its end. Any thread may call anything but the destructor, once.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "liballoc/gpu/offload/plan/plan_maker.h"

namespace terrace::liballoc::offload {

class PlanThread {
 public:
  PlanThread() = default;
  PlanThread(const PlanThread&) = delete;
  PlanThread& operator=(const PlanThread&) = delete;
  ~PlanThread();

  // False: no thread can be started. What was asked for before and has not begun is forgotten; what is being
  // made is thrown away.
  bool ask(PlanRequest request);
  // What came of the last request, once; nothing while it is being made.
  std::optional<Result<Plan>> take();

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::optional<PlanRequest> asked_;
  std::optional<Result<Plan>> made_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace terrace::liballoc::offload
