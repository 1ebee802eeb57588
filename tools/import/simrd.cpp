// simrd counts references to named tensors, several of which may share one storage. Storages become the
// trace's tensors:
//
//   log                                  trace
//   CALL, then MEMORY and ALIAS for      an operation; inputs are the storages of ARGS; a result with ALIAS
//   -1 is each result                          a new tensor, one with ALIAS k shares the storage of ARGS[k]
//   MUTATE                               an operation with the changed storages in its outputs, too
//   CONSTANT, then MEMORY                a tensor that no operation makes: persistent (a weight) if somebody
//                                        still refers to it at the end, an input otherwise
//   COPY, COPY_FROM, RELEASE             references
//   ANNOTATE BACKWARD, or the first CALL what is made from there on is a gradient
//   named "backward" that reads two
//   tensors
//
// A backward operation reads a gradient and what the forward pass left. DTR's logs call the forward pass's
// max-pooling max_pool2d_backward, too, which reads its input alone: the name does not say enough.
//
// Everything before ANNOTATE START is left out, as simrd does (simrd/parse/parse.py of
// uwsampl/dtr-prototype@eff53cc).
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "daemon/planner/json_stream.h"
#include "daemon/planner/trace_limits.h"
#include "tools/import/import.h"

namespace terrace::import {

using planner::check_limits;
using planner::in_quotes;
using planner::json_place;
using planner::JsonFields;
using planner::most_ops;
using planner::most_tensor_bytes;
using planner::most_tensors;
using planner::most_text_bytes;
using planner::most_time_us;
using planner::no_tensor;
using planner::parse_json;
using planner::text_within;

namespace {

using nlohmann::json;
using wire::TensorKind;

constexpr std::size_t most_line_bytes = std::size_t{1} << 20;
constexpr std::size_t most_names = std::size_t{1} << 20;  // in one list
constexpr std::uint32_t empty_storage = no_tensor;        // results of 0 bytes are no tensors

// The log's writer puts numbers in quotes.
std::optional<double> logged_number(const json& record, const char* field) {
  const auto found = record.find(field);
  if (found == record.end()) return std::nullopt;
  double number = 0;
  if (found->is_string()) {
    const auto& text = found->get_ref<const std::string&>();
    const auto [end, rc] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (rc != std::errc() || end != text.data() + text.size()) return std::nullopt;
  } else if (found->is_number()) {
    number = found->get<double>();
  } else {
    return std::nullopt;
  }
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

bool says(const json& record, const char* field, const char* text) {
  const auto found = record.find(field);
  return found != record.end() && *found == text;
}

class SimrdReader {
 public:
  Result<Imported> read(std::string_view text);

 private:
  bool next(json* record);
  std::string instruction(const json& record);
  std::string constant(JsonFields* fields);
  std::string call(JsonFields* fields, const json& record);
  std::string mutate(JsonFields* fields, const json& record);
  wire::TraceOp begin_op(JsonFields* fields, const json& record);
  void note_backward(const wire::TraceOp& op);
  std::string result(const std::string& name, const std::vector<std::uint32_t>& args, wire::TraceOp* op);
  std::string reference(JsonFields* fields, const std::string& instruction);
  std::string follow(const char* instruction, const std::string& name, const char* field, double* value);

  std::vector<std::string> names(JsonFields* fields, const char* key);
  std::vector<std::uint32_t> storages(JsonFields* fields, wire::TraceOp* op);
  std::string bind(const std::string& name, std::uint32_t storage);
  void let_go(std::uint32_t storage);
  std::uint32_t new_tensor(double bytes, TensorKind kind);
  void add(wire::TraceOp op);
  void finish();

  std::string_view rest_;
  std::size_t line_ = 0;
  std::string error_;
  std::unordered_map<std::string, std::uint32_t> storage_of_;
  std::vector<std::int64_t> references_;  // per storage
  std::vector<bool> constant_;            // per storage
  bool backward_ = false;
  std::size_t unknown_releases_ = 0;
  std::size_t empty_results_ = 0;
  Imported out_;
};

bool SimrdReader::next(json* record) {
  while (!rest_.empty() && error_.empty()) {
    const std::size_t end = rest_.find('\n');
    const std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    ++line_;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (line.size() > most_line_bytes) {
      error_ = "longer than 1 MiB";
      break;
    }
    Result<json> parsed = parse_json(line);
    if (!parsed || !parsed->is_object()) {
      error_ = parsed ? "not a JSON object" : std::move(parsed.error);
      break;
    }
    *record = std::move(*parsed);
    return true;
  }
  return false;
}

// The record that must come next, about the same tensor.
std::string SimrdReader::follow(const char* instruction, const std::string& name, const char* field,
                                double* value) {
  json record;
  if (!next(&record)) return error_.empty() ? std::string("the log ends before ") + instruction : error_;
  JsonFields fields(record, {}, &error_);
  if (fields.text("INSTRUCTION", most_text_bytes) != instruction ||
      fields.text("NAME", most_text_bytes) != name) {
    return std::string("expected ") + instruction + " of " + in_quotes(name);
  }
  const std::optional<double> number = logged_number(record, field);
  if (!number) return std::string(field) + ": expected a number";
  *value = *number;
  return {};
}

std::vector<std::string> SimrdReader::names(JsonFields* fields, const char* key) {
  std::vector<std::string> all;
  for (const json& name : fields->list(key)) {
    if (!name.is_string() || name.get_ref<const std::string&>().size() > most_text_bytes) {
      fields->complain(json_place(key, all.size()), "expected the name of a tensor");
      break;
    }
    all.push_back(name.get<std::string>());
    if (all.size() > most_names) fields->complain(key, "too many names");
  }
  return all;
}

std::vector<std::uint32_t> SimrdReader::storages(JsonFields* fields, wire::TraceOp* op) {
  std::vector<std::uint32_t> all;
  for (const std::string& name : names(fields, "ARGS")) {
    const auto found = storage_of_.find(name);
    if (found == storage_of_.end()) {
      fields->complain(json_place("ARGS", all.size()), "there is no tensor " + in_quotes(name));
      return all;
    }
    all.push_back(found->second);
    if (found->second != empty_storage) op->inputs.push_back(found->second);
  }
  return all;
}

std::string SimrdReader::bind(const std::string& name, std::uint32_t storage) {
  if (!storage_of_.emplace(name, storage).second) return "there is a tensor " + in_quotes(name) + " already";
  if (storage != empty_storage) ++references_[storage];
  return {};
}

void SimrdReader::let_go(std::uint32_t storage) {
  if (storage != empty_storage) --references_[storage];
}

std::uint32_t SimrdReader::new_tensor(double bytes, TensorKind kind) {
  if (bytes < 0 || bytes > static_cast<double>(most_tensor_bytes) || references_.size() >= most_tensors) {
    error_ = "MEMORY: out of range, or too many tensors";
    return empty_storage;
  }
  if (bytes == 0) {
    ++empty_results_;
    return empty_storage;
  }
  const auto index = static_cast<std::uint32_t>(references_.size());
  out_.trace.tensors.push_back({index, static_cast<std::uint64_t>(bytes), kind, false, {}, {}, {}});
  references_.push_back(0);
  constant_.push_back(false);
  return index;
}

std::string SimrdReader::constant(JsonFields* fields) {
  const std::string name = fields->text("NAME", most_text_bytes);
  double bytes = 0;
  if (std::string wrong = follow("MEMORY", name, "MEMORY", &bytes); !wrong.empty()) return wrong;
  const std::uint32_t storage = new_tensor(bytes, TensorKind::input);
  if (storage != empty_storage) constant_[storage] = true;
  return bind(name, storage);
}

std::string SimrdReader::result(const std::string& name, const std::vector<std::uint32_t>& args,
                                wire::TraceOp* op) {
  double bytes = 0;
  double alias = 0;
  if (std::string wrong = follow("MEMORY", name, "MEMORY", &bytes); !wrong.empty()) return wrong;
  if (std::string wrong = follow("ALIAS", name, "ALIAS", &alias); !wrong.empty()) return wrong;
  if (alias == -1) {
    const std::uint32_t made = new_tensor(bytes, backward_ ? TensorKind::gradient : TensorKind::activation);
    if (made != empty_storage) op->outputs.push_back(made);
    return bind(name, made);
  }
  if (alias < 0 || alias >= static_cast<double>(args.size())) return "ALIAS: there is no such argument";
  return bind(name, args[static_cast<std::size_t>(alias)]);
}

wire::TraceOp SimrdReader::begin_op(JsonFields* fields, const json& record) {
  wire::TraceOp op;
  op.name = fields->text("NAME", most_text_bytes);
  const double ns = logged_number(record, "TIME").value_or(-1);
  if (ns < 0 || ns > most_time_us) fields->complain("TIME", "expected nanoseconds");
  op.time_us = ns / 1000;
  return op;
}

void SimrdReader::note_backward(const wire::TraceOp& op) {
  backward_ = backward_ || (op.inputs.size() >= 2 && op.name.find("backward") != std::string::npos);
}

std::string SimrdReader::call(JsonFields* fields, const json& record) {
  wire::TraceOp op = begin_op(fields, record);
  const std::vector<std::string> results = names(fields, "RESULT");
  const std::vector<std::uint32_t> args = storages(fields, &op);
  note_backward(op);
  for (const std::string& r : results) {
    if (!error_.empty()) return error_;
    if (std::string wrong = result(r, args, &op); !wrong.empty()) return wrong;
  }
  add(std::move(op));
  return {};
}

std::string SimrdReader::mutate(JsonFields* fields, const json& record) {
  wire::TraceOp op = begin_op(fields, record);
  const std::vector<std::uint32_t> args = storages(fields, &op);
  note_backward(op);
  for (const json& place : fields->list("MUTATE")) {
    if (!place.is_number_unsigned() || place.get<std::uint64_t>() >= args.size()) {
      return "MUTATE: there is no argument " + place.dump();
    }
    const std::uint32_t changed = args[place.get<std::size_t>()];
    if (changed != empty_storage) op.outputs.push_back(changed);
  }
  add(std::move(op));
  return {};
}

void SimrdReader::add(wire::TraceOp op) {
  if (out_.trace.ops.size() >= most_ops) error_ = "more operations than " + std::to_string(most_ops);
  const std::string number = "/" + std::to_string(out_.trace.ops.size());
  op.name = text_within(op.name, most_text_bytes - number.size()) + number;
  out_.trace.ops.push_back(std::move(op));
}

// COPY makes a name for the storage of another, COPY_FROM lets an old name mean another storage.
std::string SimrdReader::reference(JsonFields* fields, const std::string& instruction) {
  if (instruction == "RELEASE") {
    const auto found = storage_of_.find(fields->text("NAME", most_text_bytes));
    found == storage_of_.end() ? static_cast<void>(++unknown_releases_) : let_go(found->second);
    return {};
  }
  const std::string to = fields->text("DST", most_text_bytes);
  const auto source = storage_of_.find(fields->text("SRC", most_text_bytes));
  if (source == storage_of_.end()) return "SRC: there is no such tensor";
  const std::uint32_t storage = source->second;
  if (instruction == "COPY") return bind(to, storage);
  const auto target = storage_of_.find(to);
  if (target == storage_of_.end()) return "DST: there is no such tensor";
  let_go(target->second);
  target->second = storage;
  if (storage != empty_storage) ++references_[storage];
  return {};
}

std::string SimrdReader::instruction(const json& record) {
  JsonFields fields(record, {}, &error_);
  const std::string what = fields.text("INSTRUCTION", most_text_bytes);
  std::string wrong;
  if (what == "CONSTANT") {
    wrong = constant(&fields);
  } else if (what == "CALL") {
    wrong = call(&fields, record);
  } else if (what == "MUTATE") {
    wrong = mutate(&fields, record);
  } else if (what == "COPY" || what == "COPY_FROM" || what == "RELEASE") {
    wrong = reference(&fields, what);
  } else if (what == "ANNOTATE") {
    backward_ = backward_ || fields.text("ANNOTATION", most_text_bytes) == "BACKWARD";
  } else {
    wrong = in_quotes(what) + " is no instruction that stands alone";
  }
  return error_.empty() ? wrong : error_;
}

void SimrdReader::finish() {
  for (std::size_t i = 0; i < constant_.size(); ++i) {
    if (!constant_[i] || references_[i] <= 0) continue;
    out_.trace.tensors[i].kind = TensorKind::weight;
    out_.trace.tensors[i].persistent = true;
  }
  out_.trace.source = "simrd log";
  out_.notes.emplace_back(
      "a tensor ends with its last use; the logged program may have held the tensor longer");
  out_.notes.emplace_back("kinds of tensors are guesses: a constant that is kept counts as a weight");
  if (empty_results_ > 0) {
    out_.notes.push_back(std::to_string(empty_results_) + " tensors of 0 bytes were left out");
  }
  if (unknown_releases_ > 0) {
    out_.notes.push_back(std::to_string(unknown_releases_) + " releases of tensors from before the step");
  }
}

Result<Imported> SimrdReader::read(std::string_view text) {
  // A log without the mark is taken from its first line on.
  const bool marked = text.find("\"START\"") != std::string_view::npos;
  bool started = !marked;
  rest_ = text;
  json record;
  while (next(&record)) {
    const bool start = says(record, "INSTRUCTION", "ANNOTATE") && says(record, "ANNOTATION", "START");
    if (started && error_.empty()) error_ = instruction(record);
    started = started || start;
  }
  if (error_.empty() && !started) error_ = "no ANNOTATE START";
  if (error_.empty() && out_.trace.ops.empty()) error_ = "the log has no CALL";
  if (!error_.empty()) return refused<Imported>("line " + std::to_string(line_) + ": " + error_);
  finish();
  if (std::string wrong = check_limits(out_.trace); !wrong.empty()) return refused<Imported>(wrong);
  return ok(std::move(out_));
}

}  // namespace

Result<Imported> import_simrd(std::string_view text) { return SimrdReader().read(text); }

}  // namespace terrace::import
