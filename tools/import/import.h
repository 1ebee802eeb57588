// Other people's records of training steps, as traces.
//
// Pure functions from the content of a file (unpacked) to a trace. What comes in is hostile: every count and
// size is bounded and every reference checked, and what is wrong is named by its place. What a format does
// not tell, or tells and a trace cannot hold, is said in `notes`, one sentence each; nothing is dropped in
// silence.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/planner/reuse/instance.h"
#include "liballoc/wire/result.h"
#include "liballoc/wire/trace.h"

namespace terrace::import {

enum class TraceFormat : std::uint8_t { terrace, kineto, execution_trace, simrd, csv, onnx };

inline constexpr std::array all_trace_formats = {
    TraceFormat::terrace, TraceFormat::kineto, TraceFormat::execution_trace,
    TraceFormat::simrd,   TraceFormat::csv,    TraceFormat::onnx};

const char* trace_format_name(TraceFormat format);  // as typed: "kineto", "execution-trace", …
std::optional<TraceFormat> trace_format(std::string_view name);

// Which format a file's content has, judged by its beginning; or what it is instead, as far as that is known.
Result<TraceFormat> recognise(std::string_view text);

struct Imported {
  wire::Trace trace;
  std::vector<std::string> notes;
};

// Of Trace::reads_known.
inline constexpr const char* reads_unknown_note =
    "the trace knows when a tensor is made and released, but not which operations read it";

Result<Imported> import_trace(std::string_view text, TraceFormat format);

// PyTorch's profiler (Kineto) with profile_memory: every allocation of the device that allocated most becomes
// a tensor that lives from its allocation to its release, exactly as the log says (two tensors overlap in the
// trace if and only if they did in the log). Operations are the innermost ones that allocate, release or
// launch kernels; their time is that of their kernels, or on a CPU their own without their callees'.
Result<Imported> import_kineto(std::string_view text);

// PyTorch's execution trace (host trace, Chakra's input): storages with their sizes and uses, no times.
Result<Imported> import_execution_trace(std::string_view text);

// The log of DTR's simulator simrd (Kirisame et al., ICLR 2021): one JSON object a line.
Result<Imported> import_simrd(std::string_view text);

// ONNX: sizes and order from the graph, shapes by inference, times from floating-point operations.
struct FlopModel {
  double flops_per_second = 1e13;
  std::int64_t open_dimension = 1;  // length of a dimension that the graph leaves open
  double bytes_per_second = 5e11;   // what an operation moves bounds it from below, too
};
Result<Imported> import_onnx(std::string_view bytes, const FlopModel& model = {});

// MiniMalloc's CSV, `id,lower,upper,size[,alignment]`, half-open. Columns `gaps` and `hint` are allowed and
// not used (a placement that does without is valid); `offset`, which fixes a place, is refused.
Result<planner::Instance> parse_csv(std::string_view text);
std::string csv_of(const planner::Instance& instance);

// A trace with the same lives: one operation without time between any two moments at which one begins or
// ends.
Imported trace_of(const planner::Instance& instance);

}  // namespace terrace::import
