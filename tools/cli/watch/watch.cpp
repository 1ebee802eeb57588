#include "tools/cli/watch/watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <limits>
#include <map>
#include <thread>

#include "tools/cli/base/exit_code.h"
#include "tools/cli/base/verbs.h"
#include "tools/cli/daemon/control_client.h"

namespace terrace::cli {

using nlohmann::json;

namespace {

using Clock = std::chrono::steady_clock;
// vmstat repeats its headings, because they scroll away.
constexpr std::size_t rows_per_heading = 20;

class Watcher {
 public:
  Watcher(const ViewOptions& options, const View& view, Columns columns)
      : options_(options), view_(view), columns_(std::move(columns)) {}

  // False when standard output is gone.
  bool print(const Rows& rows) {
    options_.json ? print_json(rows) : print_table(rows);
    remember(rows);
    std::cout.flush();
    return std::cout.good();
  }

 private:
  bool first() const { return before_.empty() && !looked_; }

  Rows rates(const Rows& rows) const {
    const double seconds = std::chrono::duration<double>(Clock::now() - at_).count();
    Rows out;
    for (const json& row : rows) {
      const auto earlier = before_.find(view_.key(row));
      out.push_back(rates_of(view_.columns, earlier == before_.end() ? row : earlier->second, row, seconds));
    }
    return out;
  }

  void add_rates(const Rows& rates, json* rows) const {
    for (std::size_t i = 0; i < rates.size(); ++i)
      for (const Column& column : view_.columns)
        if (column.grows && rates[i].contains(column.name))
          (*rows)[i][std::string(column.name) + "_per_second"] = rates[i][column.name];
  }

  void print_json(const Rows& rows) {
    json document{{"format", view_.format}, {"version", 1}, {view_.list, rows}};
    if (!first()) add_rates(rates(rows), &document[view_.list]);
    std::cout << document.dump(options_.watch_given ? -1 : 2) << '\n';
  }

  void print_table(const Rows& rows) {
    const bool again = since_heading_ == 0 || since_heading_ >= rows_per_heading;
    const TableStyle style{options_.bytes, again && !options_.no_headings};
    if (again) since_heading_ = 0;
    since_heading_ += std::max<std::size_t>(rows.size(), 1);
    std::cout << render(columns_, first() ? rows : rates(rows), style, !first());
  }

  void remember(const Rows& rows) {
    before_.clear();
    for (const json& row : rows) before_[view_.key(row)] = row;
    at_ = Clock::now();
    looked_ = true;
  }

  const ViewOptions& options_;
  const View& view_;
  Columns columns_;
  std::map<std::string, json> before_;
  Clock::time_point at_ = Clock::now();
  std::size_t since_heading_ = 0;
  bool looked_ = false;
};

Result<Rows> fetch(Daemons* daemons, const View& view) {
  const auto answers = daemons->request({{"verb", "status"}});
  if (!answers) return refused<Rows>(answers.error);
  Rows all;
  for (const json& status : *answers)
    for (json& row : view.rows(status)) all.push_back(std::move(row));
  return ok(std::move(all));
}

int watch(const ViewOptions& options, const View& view, const Columns& columns) {
  auto daemons = Daemons::find(options.socket);
  if (!daemons) return complain(exit_no_daemon, daemons.error);
  Watcher watcher(options, view, columns);
  Pace pace(options);
  do {
    const auto rows = fetch(&*daemons, view);
    if (!rows) return complain(exit_no_daemon, rows.error);
    if (!watcher.print(*rows)) return exit_failure;
  } while (pace.next());
  return exit_ok;
}

}  // namespace

Pace::Pace(const ViewOptions& options) {
  left_ = options.watch_given ? std::numeric_limits<double>::infinity() : 1;
  if (!options.watch.empty()) interval_ = std::max(options.watch[0], 0.01);
  if (options.watch.size() > 1) left_ = options.watch[1];
}

bool Pace::next() {
  left_ -= 1;
  if (left_ < 0.5) return false;
  std::this_thread::sleep_for(std::chrono::duration<double>(interval_));
  return true;
}

int show(const ViewOptions& options, const View& view) {
  if (options.columns == std::vector<std::string>{"help"}) {
    std::cout << list_columns(view.columns);
    return exit_ok;
  }
  const auto columns = choose_columns(view.columns, options.columns);
  if (!columns) return complain(exit_usage, columns.error);
  return watch(options, view, *columns);
}

}  // namespace terrace::cli
