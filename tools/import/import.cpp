#include "tools/import/import.h"

#include <algorithm>

#include "daemon/planner/json_stream.h"
#include "daemon/planner/trace_json.h"
#include "tools/import/gunzip.h"

namespace terrace::import {

using planner::Instance;
using planner::JsonStream;
using planner::stream_json;
using planner::Wanted;

namespace {

// In the order of TraceFormat.
constexpr std::array<const char*, all_trace_formats.size()> names = {"terrace", "kineto", "execution-trace",
                                                                     "simrd",   "csv",    "onnx"};

std::optional<TraceFormat> format_with_key(const std::string& key) {
  if (key == "traceEvents") return TraceFormat::kineto;
  if (key == "nodes" || key == "schema") return TraceFormat::execution_trace;
  if (key == "INSTRUCTION") return TraceFormat::simrd;
  if (key == "format" || key == "ops" || key == "tensors") return TraceFormat::terrace;
  return std::nullopt;
}

// JSON tells by the first field of the outermost object that only one format has.
Result<TraceFormat> recognise_json(std::string_view text) {
  std::optional<TraceFormat> found;
  JsonStream stream;
  stream.wanted = [&found](const std::string& key) {
    found = format_with_key(key);
    return found ? Wanted::stop : Wanted::no;
  };
  std::string error = stream_json(text, stream);
  if (found) return ok(*found);
  if (error.empty()) error = "this JSON is neither a trace nor a profile that terrace can read";
  return refused<TraceFormat>(std::move(error));
}

bool is_tar(std::string_view text) { return text.size() > 262 && text.substr(257, 5) == "ustar"; }

// A ModelProto begins with field 1, the version of the format, as a number (onnx.proto).
bool is_onnx(std::string_view text) { return text.size() > 2 && text[0] == 0x08 && text[1] > 0; }

Result<Imported> import_terrace(std::string_view text) {
  Result<wire::Trace> trace = planner::parse_trace(text);
  if (!trace) return refused<Imported>(std::move(trace.error));
  Imported imported{std::move(*trace), {}};
  if (!imported.trace.reads_known) imported.notes.emplace_back(reads_unknown_note);
  return ok(std::move(imported));
}

Result<Imported> import_csv(std::string_view text) {
  const Result<Instance> instance = parse_csv(text);
  if (!instance) return refused<Imported>(instance.error);
  return ok(trace_of(*instance));
}

}  // namespace

const char* trace_format_name(TraceFormat format) { return names.at(static_cast<std::size_t>(format)); }

std::optional<TraceFormat> trace_format(std::string_view name) {
  const auto* found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<TraceFormat>(found - names.begin());
}

Result<TraceFormat> recognise(std::string_view text) {
  if (is_gzip(text)) return refused<TraceFormat>("the file is packed twice with gzip; unpack it first");
  if (is_tar(text))
    return refused<TraceFormat>("the file is a tar archive; unpack it and name one of its files");
  if (text.starts_with("PK\x03\x04"))
    return refused<TraceFormat>("the file is a zip archive; unpack it first");
  if (is_onnx(text)) return ok(TraceFormat::onnx);
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return refused<TraceFormat>("the file is empty");
  if (text[begin] == '{') return recognise_json(text);
  if (text.substr(begin, 3) == "id," || text.substr(begin, 6) == "lower,") return ok(TraceFormat::csv);
  return refused<TraceFormat>(
      "the file is neither JSON, nor CSV that begins with \"id,lower,upper,size\", nor ONNX");
}

Result<Imported> import_trace(std::string_view text, TraceFormat format) {
  switch (format) {
    case TraceFormat::terrace:
      return import_terrace(text);
    case TraceFormat::kineto:
      return import_kineto(text);
    case TraceFormat::execution_trace:
      return import_execution_trace(text);
    case TraceFormat::simrd:
      return import_simrd(text);
    case TraceFormat::csv:
      return import_csv(text);
    case TraceFormat::onnx:
      return import_onnx(text);
  }
  return refused<Imported>("no such format");
}

}  // namespace terrace::import
