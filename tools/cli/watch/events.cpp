// `terrace events`: the daemon's journal, the latest first asked for and then, with --watch, what follows. A
// gap in the numbers is said: the journal is bounded and a busy job outruns it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <map>

#include "tools/cli/base/exit_code.h"
#include "tools/cli/base/verbs.h"
#include "tools/cli/daemon/control_client.h"
#include "tools/cli/terminal/table.h"
#include "tools/cli/watch/watch.h"

namespace terrace::cli {

using nlohmann::json;

namespace {

constexpr std::array columns_of_events{
    Column{"age_seconds", "AGE", Kind::seconds},
    Column{"number", "NUMBER", Kind::identity, false, false},
    Column{"job", "JOB", Kind::text},
    Column{"session", "SESSION", Kind::identity, false, false},
    Column{"kind", "KIND", Kind::text},
    Column{"bytes", "BYTES", Kind::bytes},
    Column{"address", "ADDRESS", Kind::address},
    Column{"call_site", "CALLER", Kind::address, false, false},
    Column{"position", "POSITION", Kind::identity, false, false},
    Column{"errno", "ERRNO", Kind::identity, false, false},
    Column{"text", "", Kind::text},
    Column{"socket", "SOCKET", Kind::text, false, false},
};

json row_of(const json& event, std::uint64_t now_ns, const std::string& socket) {
  json row = event;
  row["socket"] = socket;
  const std::uint64_t time_ns = event.value("time_ns", std::uint64_t{0});
  row["age_seconds"] = time_ns < now_ns ? static_cast<double>(now_ns - time_ns) / 1e9 : 0.0;
  return row;
}

// Remembers how far it has read in each daemon's journal.
class Follower {
 public:
  explicit Follower(std::uint64_t first) : wanted_(first) {}

  Result<Rows> fetch(Daemons* daemons) {
    Rows rows;
    for (ControlClient& client : daemons->all()) {
      auto answer =
          client.request({{"verb", "events"}, {"since", seen_[client.socket_path()]}, {"last", wanted_}});
      if (!answer) return refused<Rows>(answer.error);
      take(*answer, client.socket_path(), &rows);
    }
    wanted_ = most_events;
    return ok(std::move(rows));
  }
  std::uint64_t missed() const { return missed_; }

 private:
  void take(const json& answer, const std::string& socket, Rows* rows) {
    std::uint64_t& seen = seen_[socket];
    const json events = answer.value("events", json::array());
    const std::uint64_t last = answer.value("last_number", seen);
    if (seen != 0) missed_ += last - seen - std::min<std::uint64_t>(last - seen, events.size());
    for (const json& event : events)
      rows->push_back(row_of(event, answer.value("now_ns", std::uint64_t{0}), socket));
    seen = last;
  }

  std::map<std::string, std::uint64_t> seen_;
  std::uint64_t wanted_;
  std::uint64_t missed_ = 0;
};

void print(const ViewOptions& options, const Columns& columns, const Rows& rows, bool headings) {
  if (!options.json) {
    if (!rows.empty() || headings) std::cout << render(columns, rows, {options.bytes, headings});
  } else if (options.watch_given) {
    for (const json& row : rows)
      std::cout << json{{"format", "terrace-event"}, {"version", 1}, {"event", row}}.dump() << '\n';
  } else {
    std::cout << json{{"format", "terrace-events"}, {"version", 1}, {"events", rows}}.dump(2) << '\n';
  }
  std::cout.flush();
}

int follow(const ViewOptions& options, const Columns& columns) {
  auto daemons = Daemons::find(options.socket);
  if (!daemons) return complain(exit_no_daemon, daemons.error);
  Follower follower(static_cast<std::uint64_t>(options.last));
  Pace pace(options);
  bool headings = !options.no_headings;
  std::uint64_t missed = 0;
  do {
    const auto rows = follower.fetch(&*daemons);
    if (!rows) return complain(exit_no_daemon, rows.error);
    if (follower.missed() > missed)
      complain(exit_ok, fmt::format("{} events were missed", follower.missed() - missed));
    missed = follower.missed();
    print(options, columns, *rows, headings);
    headings = false;
  } while (std::cout.good() && pace.next());
  return std::cout.good() ? exit_ok : exit_failure;
}

}  // namespace

int events(const ViewOptions& options) {
  if (options.columns == std::vector<std::string>{"help"}) {
    std::cout << list_columns(columns_of_events);
    return exit_ok;
  }
  const auto columns = choose_columns(columns_of_events, options.columns);
  return columns ? follow(options, *columns) : complain(exit_usage, columns.error);
}

}  // namespace terrace::cli
