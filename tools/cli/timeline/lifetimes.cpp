// `terrace lifetimes JOB`: which allocations were how long away from DRAM, and who waited for them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iostream>

#include "tools/cli/exit_code.h"
#include "tools/cli/interruption.h"
#include "tools/cli/table.h"
#include "tools/cli/timeline/history.h"
#include "tools/cli/verbs.h"

namespace terrace::cli {

using nlohmann::json;

namespace {

constexpr std::array object_columns{
    Column{"object_bytes", "BYTES", Kind::bytes},
    Column{"born_seconds", "BORN", Kind::seconds},
    Column{"lived_seconds", "LIVED", Kind::seconds},
    Column{"away_seconds", "AWAY", Kind::seconds},
    Column{"left_runs", "LEFT", Kind::count},
    Column{"returned_runs", "BACK", Kind::count},
    Column{"waits", "WAITS", Kind::count},
    Column{"waited_seconds", "WAITED", Kind::seconds},
    Column{"place", "PLACE", Kind::text},
    Column{"reason", "REASON", Kind::text},
    Column{"away_byte_seconds", "BYTES*AWAY", Kind::bytes, false, false},
    Column{"address", "ADDRESS", Kind::address, false, false},
    Column{"call_site", "CALLER", Kind::address},
    Column{"session", "SESSION", Kind::identity, false, false},
};

const char* place_of(const ObjectLife& life) {
  if (life.died_ns != 0) return "freed";
  if (life.away_bytes == 0) return "DRAM";
  return life.away_bytes >= life.bytes ? "away" : "part away";
}

const char* reason_of(const ObjectLife& life) {
  if (life.evictions == 0 && life.returns == 0) return "it never left";
  if (life.returns == 0)
    return life.died_ns != 0 ? "not touched again before its end" : "not touched since it left";
  if (life.waits == 0) return "it was back before it was touched";
  return life.returns > life.waits ? "some of it was back in time" : "touches had to wait for it";
}

json row_of(const ObjectLife& life, const Recording& recording) {
  const auto seconds = [](std::uint64_t from, std::uint64_t to) {
    return (static_cast<double>(to) - static_cast<double>(from)) / 1e9;
  };
  const std::uint64_t born = life.born_ns != 0 ? life.born_ns : recording.begin_ns;
  const std::uint64_t died = life.died_ns != 0 ? life.died_ns : recording.end_ns;
  json row{
      {"object_bytes", life.bytes},
      {"lived_seconds", seconds(born, died)},
      {"away_seconds", life.away_byte_seconds / static_cast<double>(std::max<std::uint64_t>(life.bytes, 1))},
      {"left_runs", life.evictions},
      {"returned_runs", life.returns},
      {"waits", life.waits},
      {"waited_seconds", static_cast<double>(life.wait_ns) / 1e9},
      {"place", place_of(life)},
      {"reason", reason_of(life)},
      {"away_byte_seconds", static_cast<std::uint64_t>(life.away_byte_seconds)},
      {"address", life.address},
      {"session", life.session}};
  if (life.born_ns != 0) row["born_seconds"] = seconds(recording.begin_ns, life.born_ns);
  if (life.call_site != 0) row["call_site"] = life.call_site;
  return row;
}

// Those first whose absence saved most memory for longest, then those that live longest and largest.
Rows rows_of(const Recording& recording, std::size_t most) {
  History history = history_of(recording);
  const auto bulk = [&](const ObjectLife& life) {
    const std::uint64_t born = std::max(life.born_ns, recording.begin_ns);
    const std::uint64_t died = life.died_ns != 0 ? life.died_ns : recording.end_ns;
    return std::pair(life.away_byte_seconds,
                     static_cast<double>(life.bytes) * static_cast<double>(died - born));
  };
  std::stable_sort(history.objects.begin(), history.objects.end(),
                   [&](const ObjectLife& a, const ObjectLife& b) { return bulk(a) > bulk(b); });
  Rows rows;
  for (const ObjectLife& life : history.objects) {
    if (rows.size() == most) break;
    rows.push_back(row_of(life, recording));
  }
  return rows;
}

int show_lifetimes(const RecordOptions& options, const Columns& columns, FoundJob& job) {
  const Interruption interruption;
  const auto recording = record(job, options.seconds, [] { return !Interruption::seen(); });
  if (!recording) return complain(exit_no_daemon, recording.error);
  if (recording->hides_addresses)
    return complain(exit_permission,
                    fmt::format("{} is another user's: only that user and administrators may see its "
                                "allocations",
                                job.name()));
  if (recording->missed != 0)
    complain(exit_ok, fmt::format("{} events were missed: what follows is a part", recording->missed));
  const Rows rows = rows_of(*recording, static_cast<std::size_t>(options.last));
  if (options.json)
    std::cout << json{{"format", "terrace-lifetimes"},
                      {"version", 1},
                      {"job", job.name()},
                      {"missed", recording->missed},
                      {"objects", json(rows)}}
                     .dump(2)
              << '\n';
  else if (rows.empty())
    std::cout << fmt::format(
        "{}: nothing was allocated, freed or moved in {} s; while memory is plenty nothing is told\n",
        job.name(), options.seconds);
  else
    std::cout << render(columns, rows, {options.bytes});
  return exit_ok;
}

}  // namespace

int lifetimes(const RecordOptions& options) {
  if (options.columns == std::vector<std::string>{"help"}) {
    std::cout << list_columns(object_columns);
    return exit_ok;
  }
  const auto columns = choose_columns(object_columns, options.columns);
  if (!columns) return complain(exit_usage, columns.error);
  if (options.job.empty()) return complain(exit_usage, "lifetimes: name a job; 'terrace jobs' lists them");
  return with_named_job(options, [&](FoundJob& job) { return show_lifetimes(options, *columns, job); });
}

}  // namespace terrace::cli
