// See long_answer.h.
#include "daemon/control/long_answer.h"

#include <map>

namespace terrace::daemon {

std::string text_of(const nlohmann::json& answer) {
  return answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

LongAnswer::LongAnswer(const nlohmann::json& head, const Registry& registry) : text_(text_of(head)) {
  std::map<JobKey, std::vector<SessionId>> running;
  for (const auto& [id, session] : registry.sessions()) running[session->job()].push_back(id);
  jobs_.assign(running.begin(), running.end());
  text_.back() = ',';  // it was the brace
  text_ += R"("jobs":[)";
}

void LongAnswer::write(const ControlContext& context) {
  for (std::size_t told = 0; !is_whole() && told < processes_per_turn; ++next_) {
    const auto& [job, ids] = jobs_[next_];
    std::vector<const Session*> processes;
    for (const SessionId id : ids) {
      if (const Session* session = context.registry.find(id)) processes.push_back(session);
    }
    told += ids.size();
    if (processes.empty()) continue;
    if (!std::exchange(is_first_, false)) text_ += ',';
    text_ += text_of(view_job(context, job, processes));
  }
  if (is_whole()) text_ += "]}";
}

}  // namespace terrace::daemon
