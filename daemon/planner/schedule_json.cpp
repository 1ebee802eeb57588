// A schedule is for one trace on one machine: it names tensors by their ids and tiers by their numbers, and
// is refused where one of them is not there.
#include <algorithm>
#include <array>
#include <unordered_map>

#include "daemon/planner/json_line.h"
#include "daemon/planner/json_stream.h"
#include "daemon/planner/machine_json.h"
#include "daemon/planner/trace_limits.h"

namespace terrace::planner {
namespace {

using nlohmann::json;
using ordered = nlohmann::ordered_json;
using wire::Action;
using wire::Schedule;
using wire::ScheduleEntry;

constexpr std::size_t most_entries = std::size_t{1} << 23;
constexpr std::array<const char*, 5> actions = {"evict", "prefetch", "drop", "recompute",
                                                "wait"};  // as wire::Action

class ScheduleReader {
 public:
  ScheduleReader(const wire::Trace& trace, const Machine& machine) : trace_(trace), machine_(machine) {
    for (std::uint32_t i = 0; i < trace.tensors.size(); ++i) index_of_.emplace(trace.tensors[i].id, i);
  }
  Result<Schedule> read(std::string_view text);

 private:
  std::string field(const std::string& key, const json& value);
  std::string entry(std::size_t index, const json& value);
  void position(JsonFields* fields, ScheduleEntry* entry);
  void tensor(JsonFields* fields, ScheduleEntry* entry);
  void action(JsonFields* fields, ScheduleEntry* entry);
  void tier(JsonFields* fields, ScheduleEntry* entry);
  void codec(JsonFields* fields, ScheduleEntry* entry);

  const wire::Trace& trace_;
  const Machine& machine_;
  std::unordered_map<std::uint64_t, std::uint32_t> index_of_;
  FormatCheck format_{"terrace-schedule"};
  Schedule schedule_;
};

void ScheduleReader::position(JsonFields* fields, ScheduleEntry* entry) {
  entry->position = static_cast<std::uint32_t>(fields->whole("position", trace_.ops.size()));
  if (!schedule_.entries.empty() && entry->position < schedule_.entries.back().position) {
    fields->complain("position", "before the entry above it; entries are sorted by position");
  }
}

void ScheduleReader::tensor(JsonFields* fields, ScheduleEntry* entry) {
  const std::uint64_t id = fields->whole("tensor", most_tensor_id);
  const auto found = index_of_.find(id);
  if (found == index_of_.end()) {
    return fields->complain("tensor", "there is no tensor " + std::to_string(id) + " in the trace");
  }
  entry->tensor = found->second;
}

void ScheduleReader::action(JsonFields* fields, ScheduleEntry* entry) {
  const std::string name = fields->text("action", most_text_bytes);
  const auto* found = std::find(actions.begin(), actions.end(), name);
  if (found == actions.end()) {
    return fields->complain("action", in_quotes(name) + " is none of evict, prefetch, drop, recompute, wait");
  }
  entry->action = static_cast<Action>(found - actions.begin());
}

bool moves(const ScheduleEntry& entry) {
  return entry.action == Action::evict || entry.action == Action::prefetch;
}

void ScheduleReader::tier(JsonFields* fields, ScheduleEntry* entry) {
  if (!moves(*entry)) return;
  const std::uint64_t tier = fields->whole("tier", machine_.tiers.size() - 1);
  entry->tier = static_cast<std::uint32_t>(tier);
  const bool routed = std::any_of(machine_.routes.begin(), machine_.routes.end(),
                                  [&](const Route& r) { return r.tier == entry->tier; });
  if (!routed) fields->complain("tier", "no route of the machine leads to tier " + std::to_string(tier));
}

void ScheduleReader::codec(JsonFields* fields, ScheduleEntry* entry) {
  entry->codec = fields->text("codec", most_text_bytes, "");
  if (entry->codec.empty()) return;
  if (!moves(*entry)) fields->complain("codec", "only what moves can be compressed");
  const bool known = std::any_of(machine_.codecs.begin(), machine_.codecs.end(),
                                 [&](const CodecCost& c) { return c.name == entry->codec; });
  if (!known) fields->complain("codec", "the machine has no codec " + in_quotes(entry->codec));
}

std::string ScheduleReader::entry(std::size_t index, const json& value) {
  if (index >= most_entries) return "entries: more than " + std::to_string(most_entries);
  if (index != schedule_.entries.size()) return "entries: stands there twice";
  std::string error;
  JsonFields fields(value, json_place("entries", index), &error);
  ScheduleEntry entry;
  position(&fields, &entry);
  tensor(&fields, &entry);
  action(&fields, &entry);
  tier(&fields, &entry);
  codec(&fields, &entry);
  schedule_.entries.push_back(std::move(entry));
  return error;
}

std::string ScheduleReader::field(const std::string& key, const json& value) {
  if (FormatCheck::concerns(key)) return format_.see(key, value);
  std::string error;
  (key == "trace" ? schedule_.trace : schedule_.policy) = outer_text(key, value, most_text_bytes, &error);
  if (key == "trace" && error.empty() && schedule_.trace != trace_.name) {
    return "trace: this schedule was made for " + in_quotes(schedule_.trace) + ", not for " +
           in_quotes(trace_.name);
  }
  return error;
}

Wanted wanted_of_schedule(const std::string& key) {
  if (key == "entries") return Wanted::elements;
  return key == "trace" || key == "policy" || FormatCheck::concerns(key) ? Wanted::whole : Wanted::no;
}

Result<Schedule> ScheduleReader::read(std::string_view text) {
  JsonStream stream;
  stream.wanted = wanted_of_schedule;
  stream.whole = [this](const std::string& k, const json& v) { return field(k, v); };
  stream.element = [this](const std::string&, std::size_t i, const json& v) { return entry(i, v); };
  std::string error = stream_json(text, stream);
  if (error.empty()) error = format_.missing();
  if (!error.empty()) return refused<Schedule>(std::move(error));
  return ok(std::move(schedule_));
}

std::string entry_line(const ScheduleEntry& entry, const wire::Trace& trace) {
  ordered o{{"position", entry.position},
            {"tensor", trace.tensors[entry.tensor].id},
            {"action", actions.at(static_cast<std::size_t>(entry.action))}};
  if (moves(entry)) o["tier"] = entry.tier;
  if (!entry.codec.empty()) o["codec"] = entry.codec;
  return json_line(o);
}

}  // namespace

Result<Schedule> parse_schedule(std::string_view text, const wire::Trace& trace, const Machine& machine) {
  return ScheduleReader(trace, machine).read(text);
}

std::string schedule_json(const Schedule& schedule, const wire::Trace& trace, const Machine& /*machine*/) {
  std::string text = "{\"format\":\"terrace-schedule\",\"version\":1,\"trace\":" + json_line(schedule.trace) +
                     ",\"policy\":" + json_line(schedule.policy) + ",\n\"entries\":[";
  const char* before = "\n";
  for (const ScheduleEntry& entry : schedule.entries) {
    text += before + entry_line(entry, trace);
    before = ",\n";
  }
  return text + "]}\n";
}

}  // namespace terrace::planner
