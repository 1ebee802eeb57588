// What an ONNX file takes once it is parsed, told from its bytes alone.
//
// Two bytes on the wire (an empty operator) become some 200 in memory, and gzip packs millions of them into
// kilobytes. So a file is walked before protobuf builds it: weights may be as large as they are, all else
// must fit into most_onnx_overhead_bytes.
#pragma once

#include <cstdint>
#include <string_view>

namespace terrace::import {

// A graph of 100,000 operators with names and attributes takes about 120 MB.
inline constexpr std::uint64_t most_onnx_overhead_bytes = std::uint64_t{512} << 20;

enum class OnnxWire : std::uint8_t { fits, too_much, not_onnx };

// Counts each message by the size of its type, each text by that of its handle and each packed number by
// eight; the content of texts and of binary fields, which takes no more than in the file, is not counted.
OnnxWire check_onnx_wire(std::string_view bytes);

}  // namespace terrace::import
