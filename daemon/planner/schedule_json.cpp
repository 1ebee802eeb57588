// A schedule is for one trace on one machine: it names tensors by their ids and tiers by their numbers, and
// is refused where one of them is not there, or the step is another one.
#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>

#include "daemon/planner/json_line.h"
#include "daemon/planner/json_stream.h"
#include "daemon/planner/machine_json.h"
#include "daemon/planner/order/scheduled.h"
#include "daemon/planner/schedule_period.h"
#include "daemon/planner/trace_limits.h"

namespace terrace::planner {
namespace {

using nlohmann::json;
using ordered = nlohmann::ordered_json;
using wire::Action;
using wire::Schedule;
using wire::ScheduleEntry;

constexpr std::size_t most_entries = std::size_t{1} << 23;
// 3 where operations run in variants, which a reader of version 2 would not see.
// 4 where something is staged, or where operations run in another order, by which everything else counts.
constexpr std::uint64_t plain_version = 2, variants_version = 3, newest_version = 4;
constexpr std::size_t hash_digits = 16;

// The value whose name this is, of an enumeration that ends with `count`; `count`: none.
template <class Named>
Named named(const std::string& name) {
  std::uint32_t i = 0;
  while (i < static_cast<std::uint32_t>(Named::count) && name != wire::name_of(static_cast<Named>(i))) ++i;
  return static_cast<Named>(i);
}

std::string hash_text(std::uint64_t hash) {
  std::array<char, hash_digits> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), hash, 16);
  const std::string text(digits.data(), end.ptr);
  return std::string(hash_digits - text.size(), '0') + text;
}

class ScheduleReader {
 public:
  ScheduleReader(const wire::Trace& trace, const Machine& machine) : trace_(trace), machine_(machine) {
    for (std::uint32_t i = 0; i < trace.tensors.size(); ++i) index_of_.emplace(trace.tensors[i].id, i);
  }
  Result<Schedule> read(std::string_view text);

 private:
  std::string field(const std::string& key, const json& value);
  std::string period(const json& value);
  std::string order(const json& value);
  std::string predicted(const json& value);
  std::string spare(const json& value);
  std::string object(std::size_t index, const json& value);
  std::string entry(std::size_t index, const json& value);
  void ordinals(JsonFields* fields, ScheduleEntry* entry);
  std::optional<std::uint32_t> tensor(JsonFields* fields);
  void action(JsonFields* fields, ScheduleEntry* entry);
  void range(JsonFields* fields, ScheduleEntry* entry);
  void tier(JsonFields* fields, ScheduleEntry* entry);
  void codec(JsonFields* fields, ScheduleEntry* entry);
  std::string variant(std::size_t index, const json& value);
  std::string operation(std::size_t index, const json& value);
  std::string check_births() const;

  const wire::Trace& trace_;
  const Machine& machine_;
  struct Birth {
    std::size_t index = 0;  // in the file
    std::uint32_t tensor = 0;
    std::uint64_t ordinal = 0;
  };
  std::vector<Birth> births_;  // that the file tells, until the order is known
  std::unordered_map<std::uint64_t, std::uint32_t> index_of_;
  FormatCheck format_{"terrace-schedule", plain_version, newest_version,
                      "make the plan again with `terrace plan`"};
  Schedule schedule_;
};

void ScheduleReader::ordinals(JsonFields* fields, ScheduleEntry* entry) {
  const std::uint64_t period = trace_.ops.size();
  entry->at = static_cast<std::uint32_t>(fields->whole("at", period));
  if (!schedule_.entries.empty() && entry->at < schedule_.entries.back().at) {
    fields->complain("at", "before the entry above it; entries are sorted by it");
  }
  if (!fields->has("by")) return;
  entry->by = static_cast<std::uint32_t>(fields->whole("by", entry->at + period));
  if (entry->by < entry->at) fields->complain("by", "the deadline is before `at`");
}

std::optional<std::uint32_t> ScheduleReader::tensor(JsonFields* fields) {
  const std::uint64_t id = fields->whole("tensor", most_tensor_id);
  const auto found = index_of_.find(id);
  if (found != index_of_.end()) return found->second;
  fields->complain("tensor", "there is no tensor " + std::to_string(id) + " in the trace");
  return std::nullopt;
}

void ScheduleReader::action(JsonFields* fields, ScheduleEntry* entry) {
  const std::string name = fields->text("action", most_text_bytes);
  entry->action = named<Action>(name);
  if (entry->action == Action::count)
    fields->complain("action", in_quotes(name) + " is none of out, in, drop, redo, wait, stage");
}

void ScheduleReader::range(JsonFields* fields, ScheduleEntry* entry) {
  const std::uint64_t all = trace_.tensors[entry->object].bytes;
  entry->begin = fields->whole("begin", all, 0);
  if (fields->has("bytes")) entry->bytes = fields->whole("bytes", all - std::min(all, entry->begin));
}

void ScheduleReader::tier(JsonFields* fields, ScheduleEntry* entry) {
  if (!wire::moves(entry->action) && entry->action != Action::stage) return;
  const std::uint64_t tier = fields->whole("tier", machine_.tiers.size() - 1);
  entry->tier = static_cast<std::uint32_t>(tier);
  if (entry->action == Action::stage && !machine_.has_far_route(entry->tier))
    fields->complain("tier", "no far route of the machine leads to tier " + std::to_string(tier));
  if (!machine_.has_route(entry->tier) && entry->action != Action::stage)
    fields->complain("tier", "no route of the machine leads to tier " + std::to_string(tier));
}

void ScheduleReader::codec(JsonFields* fields, ScheduleEntry* entry) {
  const std::string name = fields->text("codec", most_text_bytes, "");
  if (name.empty()) return;
  if (!wire::moves(entry->action)) fields->complain("codec", "only what moves can be compressed");
  const auto known = std::find_if(machine_.codecs.begin(), machine_.codecs.end(),
                                  [&](const CodecCost& c) { return c.name == name; });
  if (known == machine_.codecs.end())
    return fields->complain("codec", "the machine has no codec " + in_quotes(name));
  entry->codec = 1 + static_cast<std::uint32_t>(known - machine_.codecs.begin());
}

std::string ScheduleReader::entry(std::size_t index, const json& value) {
  if (index >= most_entries) return "entries: more than " + std::to_string(most_entries);
  if (index != schedule_.entries.size()) return "entries: stands there twice";
  std::string error;
  JsonFields fields(value, json_place("entries", index), &error);
  ScheduleEntry entry;
  ordinals(&fields, &entry);
  const std::optional<std::uint32_t> object = tensor(&fields);
  if (!object) return error;
  entry.object = *object;
  action(&fields, &entry);
  range(&fields, &entry);
  tier(&fields, &entry);
  codec(&fields, &entry);
  schedule_.entries.push_back(entry);
  return error;
}

std::string ScheduleReader::variant(std::size_t index, const json& value) {
  if (index != schedule_.variants.size()) return "variants: stands there twice";
  if (trace_.ops.empty()) return "variants: the trace has no operation";
  std::string error;
  JsonFields fields(value, json_place("variants", index), &error);
  const auto op = static_cast<std::uint32_t>(fields.whole("op", trace_.ops.size() - 1));
  const std::string name = fields.text("variant", most_text_bytes);
  if (!error.empty()) return error;
  if (!schedule_.variants.empty() && op <= schedule_.variants.back().op)
    fields.complain("op", "not after the one above it; each operation stands once, in order");
  const std::vector<wire::OpVariant>& known = trace_.ops[op].variants;
  const auto found =
      std::find_if(known.begin(), known.end(), [&](const wire::OpVariant& v) { return v.name == name; });
  if (found == known.end())
    fields.complain("variant",
                    "operation " + std::to_string(op) + " of the trace has no variant " + in_quotes(name));
  schedule_.variants.push_back({op, 1 + static_cast<std::uint32_t>(found - known.begin())});
  return error;
}

std::string ScheduleReader::operation(std::size_t index, const json& value) {
  if (index != schedule_.operations.size()) return "operations: stands there twice";
  if (index >= trace_.ops.size())
    return "operations: more than the " + std::to_string(trace_.ops.size()) + " of the trace";
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= trace_.ops.size())
    return json_place("operations", index) + ": expected the number of an operation of the trace, below " +
           std::to_string(trace_.ops.size());
  schedule_.operations.push_back(static_cast<std::uint32_t>(value.get<std::uint64_t>()));
  return {};
}

std::string ScheduleReader::check_births() const {
  for (const Birth& told : births_) {
    const std::uint32_t birth = schedule_.objects[told.tensor].birth;
    if (told.ordinal != birth)
      return json_place("objects", told.index) + ".birth: in the trace" +
             (schedule_.operations.empty() ? "" : ", in the order of operations,") + " it is " +
             std::to_string(birth);
  }
  return {};
}

// Objects stand in the file for who has no trace; here they must be the trace's.
std::string ScheduleReader::object(std::size_t index, const json& value) {
  if (index >= most_tensors) return "objects: more than " + std::to_string(most_tensors);
  std::string error;
  JsonFields fields(value, json_place("objects", index), &error);
  const std::optional<std::uint32_t> found = tensor(&fields);
  if (!found) return error;
  const wire::TraceTensor& tensor = trace_.tensors[*found];
  const bool lasting = fields.flag("persistent", false);
  if (fields.whole("bytes", most_tensor_bytes) != tensor.bytes)
    fields.complain("bytes", "in the trace it has " + std::to_string(tensor.bytes));
  if (lasting != tensor.persistent) fields.complain("persistent", "in the trace it is the other way round");
  if (!lasting) births_.push_back({index, *found, fields.whole("birth", trace_.ops.size())});
  return error;
}

std::string ScheduleReader::period(const json& value) {
  std::string error;
  JsonFields fields(value, "period", &error);
  const std::uint64_t ordinals = fields.whole("ordinals", most_ops);
  const std::string hash = fields.text("hash", hash_digits, "");
  if (!error.empty()) return error;
  if (ordinals != trace_.ops.size())
    return "period.ordinals: it has " + std::to_string(ordinals) + ", the trace has " +
           std::to_string(trace_.ops.size()) + " operations";
  if (!hash.empty() && hash != hash_text(period_hash(trace_)))
    return "period.hash: this schedule was made for another step of this name; make the plan again with "
           "`terrace plan`";
  return {};
}

std::string ScheduleReader::order(const json& value) {
  std::string error;
  JsonFields fields(value, "order", &error);
  for (const auto& [key, order] :
       {std::pair("out", &schedule_.out_order), std::pair("in", &schedule_.in_order)}) {
    const std::string name = fields.text(key, most_text_bytes, wire::name_of(wire::Order::asked));
    *order = named<wire::Order>(name);
    if (*order == wire::Order::count)
      fields.complain(key, in_quotes(name) + " is neither asked nor deadline");
  }
  return error;
}

std::string ScheduleReader::predicted(const json& value) {
  std::string error;
  JsonFields fields(value, "predicted", &error);
  wire::Prediction& p = schedule_.predicted;
  p.step_us = fields.amount("step_us", most_time_us);
  p.late_us = fields.amount("late_us", most_time_us, 0);
  p.fetch_us = fields.amount("fetch_us", most_time_us, 0);
  p.room_us = fields.amount("room_us", most_time_us, 0);
  const json::array_t& peaks = fields.list("tier_peak_bytes", true);
  if (error.empty() && peaks.size() > machine_.tiers.size())
    return "predicted.tier_peak_bytes: more than the machine has tiers";
  for (const json& peak : peaks) {
    if (!peak.is_number_unsigned()) return "predicted.tier_peak_bytes: expected whole numbers";
    p.tier_peak_bytes.push_back(peak.get<std::uint64_t>());
  }
  return error;
}

std::string ScheduleReader::spare(const json& value) {
  if (!value.is_number_unsigned()) return "spare_bytes: expected a whole number of bytes";
  schedule_.spare_bytes = value.get<std::uint64_t>();
  if (schedule_.spare_bytes < machine_.tiers[0].capacity_bytes) return {};
  return "spare_bytes: the machine's first tier has no more; make the plan again with `terrace plan`";
}

std::string ScheduleReader::field(const std::string& key, const json& value) {
  if (FormatCheck::concerns(key)) return format_.see(key, value);
  if (key == "period") return period(value);
  if (key == "order") return order(value);
  if (key == "predicted") return predicted(value);
  if (key == "spare_bytes") return spare(value);
  std::string error;
  const std::string text = outer_text(key, value, most_text_bytes, &error);
  if (!error.empty()) return error;
  if (key == "policy") schedule_.policy = text;
  if (key == "trace") schedule_.trace = text;
  if (key == "trace" && text != trace_.name)
    return "trace: this schedule was made for " + in_quotes(text) + ", not for " + in_quotes(trace_.name);
  if (key == "clock" && named<wire::Clock>(text) != wire::Clock::operations)
    return "clock: a trace has the clock operations, not " + in_quotes(text);
  return error;
}

Wanted wanted_of_schedule(const std::string& key) {
  if (key == "entries" || key == "objects" || key == "variants" || key == "operations")
    return Wanted::elements;
  constexpr std::array<const char*, 7> whole = {"trace", "policy",    "clock",      "period",
                                                "order", "predicted", "spare_bytes"};
  return std::find(whole.begin(), whole.end(), key) != whole.end() || FormatCheck::concerns(key)
             ? Wanted::whole
             : Wanted::no;
}

Result<Schedule> ScheduleReader::read(std::string_view text) {
  JsonStream stream;
  stream.wanted = wanted_of_schedule;
  stream.whole = [this](const std::string& k, const json& v) { return field(k, v); };
  stream.element = [this](const std::string& k, std::size_t i, const json& v) {
    if (k == "variants") return variant(i, v);
    if (k == "operations") return operation(i, v);
    return k == "entries" ? entry(i, v) : object(i, v);
  };
  std::string error = stream_json(text, stream);
  if (error.empty()) error = format_.missing();
  if (error.empty()) error = check_operations(trace_, schedule_.operations);
  if (!error.empty()) return refused<Schedule>(std::move(error));
  schedule_.trace = trace_.name;
  describe(trace_, &schedule_);
  if (error = check_births(); !error.empty()) return refused<Schedule>(std::move(error));
  return ok(std::move(schedule_));
}

std::string entry_line(const ScheduleEntry& entry, const wire::Trace& trace, const Machine& machine) {
  ordered o{{"at", entry.at}};
  if (entry.by != wire::no_deadline) o["by"] = entry.by;
  o["tensor"] = trace.tensors[entry.object].id;
  o["action"] = wire::name_of(entry.action);
  if (entry.begin != 0) o["begin"] = entry.begin;
  if (entry.bytes != wire::whole_object) o["bytes"] = entry.bytes;
  if (wire::moves(entry.action) || entry.action == Action::stage) o["tier"] = entry.tier;
  if (entry.codec != 0) o["codec"] = machine.codecs[entry.codec - 1].name;
  return json_line(o);
}

std::string object_line(const wire::ScheduleObject& object) {
  ordered o{{"tensor", object.id}, {"bytes", object.bytes}};
  if (object.birth == wire::persistent)
    o["persistent"] = true;
  else
    o["birth"] = object.birth;
  return json_line(o);
}

// Those that entries name, in the trace's order.
std::vector<wire::ScheduleObject> named_objects(const Schedule& schedule) {
  std::vector<bool> is_named(schedule.objects.size(), false);
  for (const ScheduleEntry& e : schedule.entries) is_named[e.object] = true;
  std::vector<wire::ScheduleObject> objects;
  for (std::size_t i = 0; i < is_named.size(); ++i)
    if (is_named[i]) objects.push_back(schedule.objects[i]);
  return objects;
}

template <class Element, class Line>
std::string array_lines(const std::vector<Element>& elements, Line line) {
  std::string text = "[";
  const char* before = "\n";
  for (const Element& element : elements) {
    text += before + line(element);
    before = ",\n";
  }
  return text + "]";
}

// The first one that can say it.
std::uint64_t version_of(const Schedule& schedule) {
  const bool stages = std::any_of(schedule.entries.begin(), schedule.entries.end(),
                                  [](const ScheduleEntry& e) { return e.action == Action::stage; });
  if (stages || !schedule.operations.empty()) return newest_version;
  return schedule.variants.empty() ? plain_version : variants_version;
}

ordered head(const Schedule& schedule) {
  ordered o{
      {"format", "terrace-schedule"},
      {"version", version_of(schedule)},
      {"trace", schedule.trace},
      {"policy", schedule.policy},
      {"clock", wire::name_of(schedule.clock)},
      {"period", {{"ordinals", schedule.period}, {"hash", hash_text(schedule.period_hash)}}},
      {"order", {{"out", wire::name_of(schedule.out_order)}, {"in", wire::name_of(schedule.in_order)}}}};
  if (schedule.spare_bytes > 0) o["spare_bytes"] = schedule.spare_bytes;
  const wire::Prediction& p = schedule.predicted;
  if (p.step_us > 0) {
    o["predicted"] = {{"step_us", p.step_us},
                      {"late_us", p.late_us},
                      {"fetch_us", p.fetch_us},
                      {"room_us", p.room_us},
                      {"tier_peak_bytes", p.tier_peak_bytes}};
  }
  return o;
}

}  // namespace

Result<Schedule> parse_schedule(std::string_view text, const wire::Trace& trace, const Machine& machine) {
  return ScheduleReader(trace, machine).read(text);
}

std::string schedule_json(const Schedule& schedule, const wire::Trace& trace, const Machine& machine) {
  Schedule described = schedule;
  if (described.period == 0) describe(trace, &described);
  std::string text = json_line(head(described));
  text.pop_back();  // the brace
  if (!described.operations.empty()) text += ",\n\"operations\":" + json(described.operations).dump();
  if (!described.variants.empty())
    text += ",\n\"variants\":" + array_lines(described.variants, [&](const wire::VariantChoice& choice) {
              const std::string& name = trace.ops[choice.op].variants[choice.variant - 1].name;
              return json_line(ordered{{"op", choice.op}, {"variant", name}});
            });
  return text + ",\n\"objects\":" + array_lines(named_objects(described), object_line) + ",\n\"entries\":" +
         array_lines(described.entries,
                     [&](const ScheduleEntry& e) { return entry_line(e, trace, machine); }) +
         "}\n";
}

}  // namespace terrace::planner
