// `terrace top`: asks every daemon once a second for its state and its events, and answers "why is my step
// slow" on one screen. A daemon that goes away is said and looked for again.
#include <unistd.h>

#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "tools/cli/base/exit_code.h"
#include "tools/cli/base/verbs.h"
#include "tools/cli/daemon/control_client.h"
#include "tools/cli/daemon/snapshot.h"
#include "tools/cli/terminal/screen.h"
#include "tools/cli/watch/top_page.h"

namespace terrace::cli {

using nlohmann::json;

namespace {

constexpr double refresh_seconds = 1;

class Monitor {
 public:
  Monitor(Daemons daemons, std::string socket_option)
      : daemons_(std::move(daemons)), socket_option_(std::move(socket_option)) {}

  TopState look() {
    const auto answers = ask();
    if (!answers) return {{}, {}, true, answers.error};
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - at_).count();
    TopState state{{}, {}, before_.empty(), ""};
    std::map<std::string, json> seen;
    for (const json& status : *answers) {
      state.daemons.push_back(status_row(status));
      for (json& row : job_rows(status)) add_job(std::move(row), seconds, &state, &seen);
    }
    before_ = std::move(seen);
    at_ = now;
    return state;
  }

 private:
  Result<std::vector<json>> ask() {
    // Found anew every time: jobs with daemons of their own come and go.
    if (auto found = Daemons::find(socket_option_)) daemons_ = std::move(*found);
    auto answers = daemons_.request({{"verb", "status"}});
    for (ControlClient& client : daemons_.all()) take_events(&client);
    return answers;
  }

  void take_events(ControlClient* client) {
    std::uint64_t& seen = last_event_[client->socket_path()];
    const auto answer = client->request({{"verb", "events"}, {"since", seen}, {"last", most_events}});
    if (!answer) return;
    const json events = answer->value("events", json::array());
    const std::uint64_t last = answer->value("last_number", seen);
    complete_ = events.size() == last - seen;
    for (const json& event : events) stalls_.take(client->socket_path(), event);
    seen = last;
  }

  void add_job(json row, double seconds, TopState* state, std::map<std::string, json>* seen) {
    const std::string key = job_key(row);
    const auto earlier = before_.find(key);
    const StallCauses causes = stalls_.collect(row.value("socket", ""), row.value("job", ""));
    state->jobs.push_back(
        {rates_of(job_columns(), earlier == before_.end() ? row : earlier->second, row, seconds), causes,
         complete_});
    (*seen)[key] = std::move(row);
  }

  Daemons daemons_;
  std::string socket_option_;
  StallAttribution stalls_;
  std::map<std::string, json> before_;
  std::map<std::string, std::uint64_t> last_event_;
  std::chrono::steady_clock::time_point at_ = std::chrono::steady_clock::now();
  bool complete_ = true;
};

// Draws until q; redraws at once when the window changes, looks anew once a second.
void watch(Monitor* monitor, const ViewOptions& options) {
  Screen screen;
  const Painter paint(STDOUT_FILENO);
  while (!screen.ending()) {
    const TopState state = monitor->look();
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(refresh_seconds);
    for (double left = refresh_seconds; left > 0 && !screen.ending();) {
      const ScreenSize size = screen.size();
      screen.draw(top_page(state, {size.columns, size.lines, options.bytes}, paint));
      const char key = screen.wait_key(left);
      if (key == 'q' || key == 'Q' || key == '\033') return;
      left = std::chrono::duration<double>(until - std::chrono::steady_clock::now()).count();
    }
  }
}

}  // namespace

int top(const ViewOptions& options) {
  if (!Screen::available())
    return complain(exit_usage, "top needs a terminal; elsewhere use: terrace jobs --watch");
  auto daemons = Daemons::find(options.socket);
  if (!daemons) return complain(exit_no_daemon, daemons.error);
  Monitor monitor(std::move(*daemons), options.socket);
  watch(&monitor, options);
  return exit_ok;
}

}  // namespace terrace::cli
