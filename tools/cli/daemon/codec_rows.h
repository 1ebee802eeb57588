// What compression did on the way to a tier and back, a row for each codec that was used: out of the counters
// that the library keeps by codec (wire/segment.h), of one job or summed over several.
#pragma once

#include "tools/cli/terminal/table.h"

namespace terrace::cli {

// codec, tier, content_bytes, frame_bytes, saved_bytes, ratio, compress_seconds, decompress_seconds.
std::span<const Column> codec_columns();

// Names of the counters that codec_rows() reads out of a job's row (snapshot.h): zvc_content_bytes and so on.
std::vector<std::string> codec_counters();

// `counters` has zvc_content_bytes and so on, times as …_ns or …_seconds. Codecs without any work are left
// out.
Rows codec_rows(const nlohmann::json& counters);

// The rows as a table, "" where there are none.
std::string codec_table(Rows rows, const TableStyle& style);

}  // namespace terrace::cli
