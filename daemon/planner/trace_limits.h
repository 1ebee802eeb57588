// What a trace may hold at most, whichever file it came from, so that no sum in the planner overflows and no
// file takes the machine's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "liballoc/wire/trace.h"

namespace terrace::planner {

inline constexpr std::size_t most_ops = std::size_t{1} << 22;
inline constexpr std::size_t most_tensors = std::size_t{1} << 23;
inline constexpr std::size_t most_references = std::size_t{1} << 26;
inline constexpr std::uint64_t most_tensor_bytes = std::uint64_t{1} << 50;  // 1 PiB
inline constexpr std::uint64_t most_total_bytes = std::uint64_t{1} << 62;   // of all tensors and workspaces
inline constexpr std::uint64_t most_tensor_id = (std::uint64_t{1} << 63) - 1;
inline constexpr double most_time_us = 1e13;  // 115 days
inline constexpr double most_flops = 1e24;
inline constexpr std::size_t most_text_bytes = 4096;
inline constexpr std::size_t most_dtype_bytes = 64;
inline constexpr std::size_t most_dimensions = 32;
inline constexpr std::size_t most_variants = 64;  // of one operation

// By their names in files.
std::optional<wire::TensorKind> tensor_kind(const std::string& name);
const char* tensor_kind_name(wire::TensorKind kind);
std::string tensor_kinds();  // "weight, activation, …"

// A name from outside as a trace can hold it: what is not UTF-8 is replaced, what is too long is cut before a
// character.
std::string text_within(std::string_view text, std::size_t most_bytes = most_text_bytes);

// Which limit a trace exceeds, empty if none: counts, each time and size, and the sum of all sizes. What an
// importer gives passes, so that what was imported can be read again.
std::string check_limits(const wire::Trace& trace);

}  // namespace terrace::planner
