// Operations may stand before the tensors that they name (they do in our files), so references are kept as
// they were written and looked up at the end.
#include "daemon/planner/trace_json.h"

#include <algorithm>
#include <unordered_map>

#include "daemon/planner/json_stream.h"
#include "daemon/planner/running_statistics.h"
#include "daemon/planner/trace_limits.h"

namespace terrace::planner {
namespace {

using nlohmann::json;
using wire::TensorKind;
using wire::Trace;
using wire::TraceOp;
using wire::TraceTensor;

using References = std::vector<std::uint32_t> TraceOp::*;

struct Reference {
  std::uint32_t op;
  std::uint32_t place;  // in its list
  References list;
  std::uint64_t id;
};

const char* name_of(References list) {
  return list == &TraceOp::inputs ? "inputs" : list == &TraceOp::outputs ? "outputs" : "sign_only";
}

class TraceReader {
 public:
  Result<Trace> read(std::string_view text);

 private:
  std::string field(const std::string& key, const json& value);
  std::string op(std::size_t index, const json& value);
  std::string tensor(std::size_t index, const json& value);
  void references(JsonFields* fields, References list, bool may_be_absent = false);
  static void variants(JsonFields* fields, const std::string& place, TraceOp* op);
  void shape(JsonFields* fields, TraceTensor* tensor);
  std::string resolve();

  FormatCheck format_{"terrace-trace"};
  Trace trace_;
  std::vector<Reference> references_;
  std::unordered_map<std::uint64_t, std::uint32_t> index_of_;
  std::vector<bool> says_statistics_;  // per tensor: whether the file says if it is running statistics
};

std::string TraceReader::field(const std::string& key, const json& value) {
  if (FormatCheck::concerns(key)) return format_.see(key, value);
  std::string error;
  if (key == "reads_known") {
    trace_.reads_known = value.is_boolean() && value.get<bool>();
    return value.is_boolean() ? "" : "reads_known: expected true or false";
  }
  (key == "name" ? trace_.name : trace_.source) = outer_text(key, value, most_text_bytes, &error);
  return error;
}

void TraceReader::references(JsonFields* fields, References list, bool may_be_absent) {
  const char* key = name_of(list);
  const json::array_t& ids = fields->list(key, may_be_absent);
  const auto op = static_cast<std::uint32_t>(trace_.ops.size());
  for (std::uint32_t i = 0; i < ids.size(); ++i) {
    if (!ids[i].is_number_unsigned()) {
      return fields->complain(json_place(key, i), "expected the id of a tensor");
    }
    references_.push_back({op, i, list, ids[i].get<std::uint64_t>()});
  }
}

void TraceReader::variants(JsonFields* fields, const std::string& place, TraceOp* op) {
  const json::array_t& list = fields->list("variants", true);
  if (list.size() > most_variants)
    return fields->complain("variants", "more than " + std::to_string(most_variants));
  for (std::size_t i = 0; i < list.size(); ++i) {
    std::string error;
    JsonFields one(list[i], place + "." + json_place("variants", i), &error);
    wire::OpVariant variant;
    variant.name = one.text("name", most_text_bytes);
    variant.time_us = one.amount("time_us", most_time_us);
    variant.workspace_bytes = one.whole("workspace_bytes", most_tensor_bytes, 0);
    const auto same = [&](const wire::OpVariant& other) { return other.name == variant.name; };
    if (std::any_of(op->variants.begin(), op->variants.end(), same))
      one.complain("name", in_quotes(variant.name) + " is the name of another variant, too");
    fields->take(error);
    op->variants.push_back(std::move(variant));
  }
}

std::string TraceReader::op(std::size_t index, const json& value) {
  if (index >= most_ops) return "ops: more than " + std::to_string(most_ops);
  std::string error;
  JsonFields fields(value, json_place("ops", index), &error);
  TraceOp op;
  op.name = fields.text("name", most_text_bytes);
  op.time_us = fields.amount("time_us", most_time_us);
  op.workspace_bytes = fields.whole("workspace_bytes", most_tensor_bytes, 0);
  op.recomputable = fields.flag("recomputable", true);
  if (fields.has("flops")) op.flops = fields.amount("flops", most_flops);
  variants(&fields, json_place("ops", index), &op);
  references(&fields, &TraceOp::inputs);
  references(&fields, &TraceOp::outputs);
  references(&fields, &TraceOp::sign_only, true);
  if (references_.size() > most_references) return "ops: they name tensors too often";
  trace_.ops.push_back(std::move(op));
  return error;
}

void TraceReader::shape(JsonFields* fields, TraceTensor* tensor) {
  const json::array_t& sides = fields->list("shape", true);
  if (sides.size() > most_dimensions) return fields->complain("shape", "more than 32 dimensions");
  for (std::size_t i = 0; i < sides.size(); ++i) {
    if (!sides[i].is_number_unsigned() || sides[i].get<std::uint64_t>() > most_tensor_bytes) {
      return fields->complain(json_place("shape", i), "expected a whole number that is not negative");
    }
    tensor->shape.push_back(sides[i].get<std::int64_t>());
  }
}

std::string TraceReader::tensor(std::size_t index, const json& value) {
  if (index >= most_tensors) return "tensors: more than " + std::to_string(most_tensors);
  std::string error;
  JsonFields fields(value, json_place("tensors", index), &error);
  TraceTensor tensor;
  tensor.id = fields.whole("id", most_tensor_id);
  tensor.bytes = fields.whole("bytes", most_tensor_bytes);
  tensor.persistent = fields.flag("persistent", false);
  tensor.dtype = fields.text("dtype", most_dtype_bytes, "");
  if (fields.has("sparsity")) tensor.sparsity = fields.amount("sparsity", 1);
  tensor.running_statistics = fields.flag("running_statistics", false);
  says_statistics_.push_back(fields.has("running_statistics"));
  shape(&fields, &tensor);
  const std::string kind = fields.text("kind", most_text_bytes, "other");
  const std::optional<TensorKind> known = tensor_kind(kind);
  if (!known) fields.complain("kind", in_quotes(kind) + " is none of " + tensor_kinds());
  tensor.kind = known.value_or(TensorKind::other);
  if (!index_of_.emplace(tensor.id, index).second) {
    fields.complain("id", std::to_string(tensor.id) + " is the id of another tensor, too");
  }
  trace_.tensors.push_back(std::move(tensor));
  return error;
}

std::string TraceReader::resolve() {
  for (const Reference& r : references_) {
    const auto found = index_of_.find(r.id);
    if (found == index_of_.end()) {
      return json_place("ops", r.op) + "." + json_place(name_of(r.list), r.place) + ": there is no tensor " +
             std::to_string(r.id);
    }
    TraceOp& op = trace_.ops[r.op];
    (op.*r.list).push_back(found->second);
  }
  const std::vector<bool> likely = likely_running_statistics(trace_);
  for (std::size_t t = 0; t < likely.size(); ++t)
    if (!says_statistics_[t]) trace_.tensors[t].running_statistics = likely[t];
  return check_limits(trace_);
}

Wanted wanted(const std::string& key) {
  if (key == "ops" || key == "tensors") return Wanted::elements;
  const bool whole = key == "name" || key == "source" || key == "reads_known" || FormatCheck::concerns(key);
  return whole ? Wanted::whole : Wanted::no;
}

Result<Trace> TraceReader::read(std::string_view text) {
  JsonStream stream;
  stream.wanted = wanted;
  stream.whole = [this](const std::string& key, const json& value) { return field(key, value); };
  stream.element = [this](const std::string& key, std::size_t index, const json& value) {
    // An array that stands there twice would begin again at 0.
    const std::size_t had = key == "ops" ? trace_.ops.size() : trace_.tensors.size();
    if (had != index) return key + ": stands there twice";
    return key == "ops" ? op(index, value) : tensor(index, value);
  };
  std::string error = stream_json(text, stream);
  if (error.empty()) error = format_.missing();
  if (error.empty()) error = resolve();
  if (!error.empty()) return refused<Trace>(std::move(error));
  return ok(std::move(trace_));
}

}  // namespace

Result<Trace> parse_trace(std::string_view text) { return TraceReader().read(text); }

}  // namespace terrace::planner
