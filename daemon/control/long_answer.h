// An answer that tells of all jobs, written in turns: of a thousand jobs it takes tens of milliseconds, in
// which nobody else would be served. A job that ends meanwhile is left out. Pure, as control.h.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "daemon/control/control.h"

namespace terrace::daemon {

class LongAnswer {
 public:
  static constexpr std::size_t processes_per_turn = 64;  // some 3 ms

  // `head`: the answer without its field "jobs", an object that is not empty.
  LongAnswer(const nlohmann::json& head, const Registry& registry);
  // Writes on: of so many processes, and then to the end of a job. At least once, and not when it is whole.
  void write(const ControlContext& context);
  bool is_whole() const { return next_ == jobs_.size(); }
  const std::string& text() const { return text_; }

 private:
  std::vector<std::pair<JobKey, std::vector<SessionId>>> jobs_;
  std::size_t next_ = 0;
  bool is_first_ = true;
  std::string text_;
};

// As text; what is no UTF-8 is replaced.
std::string text_of(const nlohmann::json& answer);

}  // namespace terrace::daemon
