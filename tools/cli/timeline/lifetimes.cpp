// `terrace lifetimes JOB`: which allocations were how long away from DRAM, and who waited for them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <map>
#include <tuple>

#include "tools/cli/base/exit_code.h"
#include "tools/cli/base/interruption.h"
#include "tools/cli/base/verbs.h"
#include "tools/cli/terminal/table.h"
#include "tools/cli/timeline/history.h"

namespace terrace::cli {

using nlohmann::json;

namespace {

constexpr std::array object_columns{
    Column{"object_bytes", "BYTES", Kind::bytes},
    Column{"times", "TIMES", Kind::count},
    Column{"step_place", "PLACE-IN-STEP", Kind::identity, false, false},
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

// Allocations that come at the same place of each step, or one alone. All but `times` and `life` are sums.
struct Likes {
  ObjectLife life;  // of the first
  std::uint64_t times = 0;
  std::uint64_t left = 0, returned = 0, waits = 0;
  double since_step_seconds = 0, lived_seconds = 0, away_byte_seconds = 0, waited_seconds = 0;
};

const char* place_of(const ObjectLife& life) {
  if (life.died_ns != 0) return "freed";
  if (life.away_bytes == 0) return "DRAM";
  return life.away_bytes >= life.bytes ? "away" : "part away";
}

const char* reason_of(const Likes& likes) {
  if (likes.left == 0 && likes.returned == 0) return "it never left";
  if (likes.returned == 0)
    return likes.life.died_ns != 0 ? "not touched again before its end" : "not touched since it left";
  if (likes.waits == 0) return "it was back before it was touched";
  return likes.returned > likes.waits ? "some of it was back in time" : "touches had to wait for it";
}

double seconds_between(std::uint64_t from, std::uint64_t to) {
  return (static_cast<double>(to) - static_cast<double>(from)) / 1e9;
}

void count(const ObjectLife& life, const Recording& recording, Likes* into) {
  if (into->times++ == 0) into->life = life;
  into->left += life.evictions;
  into->returned += life.returns;
  into->waits += life.waits;
  into->waited_seconds += static_cast<double>(life.wait_ns) / 1e9;
  into->since_step_seconds += static_cast<double>(life.since_step_ns) / 1e9;
  into->away_byte_seconds += life.away_byte_seconds;
  into->lived_seconds += seconds_between(life.born_ns != 0 ? life.born_ns : recording.begin_ns,
                                         life.died_ns != 0 ? life.died_ns : recording.end_ns);
}

// Times are of one of them, on the average.
json row_of(const Likes& likes, const Recording& recording) {
  const ObjectLife& life = likes.life;
  const auto times = static_cast<double>(likes.times);
  json row{{"object_bytes", life.bytes},
           {"times", likes.times},
           {"lived_seconds", likes.lived_seconds / times},
           {"away_seconds",
            likes.away_byte_seconds / times / static_cast<double>(std::max<std::uint64_t>(life.bytes, 1))},
           {"left_runs", likes.left},
           {"returned_runs", likes.returned},
           {"waits", likes.waits},
           {"waited_seconds", likes.waited_seconds / times},
           {"place", place_of(life)},
           {"reason", reason_of(likes)},
           {"away_byte_seconds", static_cast<std::uint64_t>(likes.away_byte_seconds)},
           {"address", life.address},
           {"session", life.session}};
  if (life.place != no_place) row["step_place"] = life.place;
  if (life.place != no_place)
    row["born_seconds"] = likes.since_step_seconds / times;
  else if (life.born_ns != 0)
    row["born_seconds"] = seconds_between(recording.begin_ns, life.born_ns);
  if (life.call_site != 0) row["call_site"] = life.call_site;
  return row;
}

std::vector<Likes> likes_of(const History& history, const Recording& recording) {
  std::vector<Likes> all;
  std::map<std::tuple<std::uint64_t, std::uint64_t, std::uint32_t, std::uint64_t>, std::size_t> by_place;
  for (const ObjectLife& life : history.objects) {
    std::size_t at = all.size();
    if (life.place != no_place)
      at = by_place.try_emplace({life.session, life.step_kind, life.place, life.bytes}, at).first->second;
    if (at == all.size()) all.emplace_back();
    count(life, recording, &all[at]);
  }
  return all;
}

// Those first whose absence saved most memory for longest, then those that live longest and largest.
Rows rows_of(const History& history, const Recording& recording, std::size_t most) {
  std::vector<Likes> all = likes_of(history, recording);
  const auto bulk = [](const Likes& likes) {
    return std::pair(likes.away_byte_seconds, static_cast<double>(likes.life.bytes) * likes.lived_seconds);
  };
  std::stable_sort(all.begin(), all.end(), [&](const Likes& a, const Likes& b) { return bulk(a) > bulk(b); });
  Rows rows;
  for (const Likes& likes : all) {
    if (rows.size() == most) break;
    rows.push_back(row_of(likes, recording));
  }
  return rows;
}

std::string steps_line(const History& history, const Recording& recording) {
  if (history.steps.size() < 2) return "";
  const double seconds = seconds_between(history.steps.front().time_ns, history.steps.back().time_ns);
  const std::size_t steps = history.steps.size() - 1;
  return fmt::format(
      "{}: {} steps of {:.3g} s; a row stands for what comes at the same place of each step, and its times "
      "are averages\n",
      recording.job, steps, seconds / static_cast<double>(steps));
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
    complain(exit_ok, fmt::format("{} events were missed: what follows is incomplete", recording->missed));
  const History history = history_of(*recording);
  const Rows rows = rows_of(history, *recording, static_cast<std::size_t>(options.last));
  if (options.json)
    std::cout << json{{"format", "terrace-lifetimes"},
                      {"version", 1},
                      {"job", job.name()},
                      {"missed", recording->missed},
                      {"steps", history.steps.size()},
                      {"objects", json(rows)}}
                     .dump(2)
              << '\n';
  else if (rows.empty())
    std::cout << fmt::format(
        "{}: nothing was allocated, freed or moved in {} s; a job with plenty of memory reports nothing\n",
        job.name(), options.seconds);
  else
    std::cout << steps_line(history, *recording) << render(columns, rows, {options.bytes});
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
