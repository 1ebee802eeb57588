#include "tools/cli/daemon/codec_rows.h"

#include <fmt/format.h>

#include <array>

#include "tools/cli/base/json_numbers.h"

namespace terrace::cli {

using nlohmann::json;

namespace {

// Those of TERRACE_CODECS (terrace.h), which all write to the pool.
constexpr const char* codecs[] = {"zvc", "zvc_exp", "rle", "csr8"};
constexpr const char* tier_of_codecs = "nvme";

constexpr std::array columns_of_codecs{
    Column{"codec", "CODEC", Kind::text},
    Column{"tier", "TIER", Kind::text},
    Column{"content_bytes", "CONTENT", Kind::bytes},
    Column{"frame_bytes", "WRITTEN", Kind::bytes},
    Column{"saved_bytes", "SAVED", Kind::bytes},
    Column{"ratio", "RATIO", Kind::text},
    Column{"compress_seconds", "COMPRESS", Kind::seconds},
    Column{"decompress_seconds", "DECOMPRESS", Kind::seconds},
};

double seconds(const json& counters, const std::string& name) {
  return number(counters, name + "_seconds") + number(counters, name + "_ns") / 1e9;
}

}  // namespace

std::span<const Column> codec_columns() { return columns_of_codecs; }

std::vector<std::string> codec_counters() {
  std::vector<std::string> names;
  names.reserve(std::size(codecs) * 4);
  for (const std::string codec : codecs)
    for (const char* what : {"_content_bytes", "_frame_bytes", "_compress_seconds", "_decompress_seconds"})
      names.push_back(codec + what);
  return names;
}

Rows codec_rows(const json& counters) {
  Rows rows;
  for (const std::string codec : codecs) {
    const double content = number(counters, codec + "_content_bytes"),
                 frames = number(counters, codec + "_frame_bytes");
    if (frames <= 0) continue;
    rows.push_back({{"codec", codec},
                    {"tier", tier_of_codecs},
                    {"content_bytes", static_cast<std::uint64_t>(content)},
                    {"frame_bytes", static_cast<std::uint64_t>(frames)},
                    {"saved_bytes", static_cast<std::uint64_t>(content > frames ? content - frames : 0)},
                    {"ratio", content / frames},
                    {"compress_seconds", seconds(counters, codec + "_compress")},
                    {"decompress_seconds", seconds(counters, codec + "_decompress")}});
  }
  return rows;
}

std::string codec_table(Rows rows, const TableStyle& style) {
  for (json& row : rows) row["ratio"] = fmt::format("{:.2f}", row["ratio"].get<double>());
  return rows.empty() ? "" : render(*choose_columns(columns_of_codecs, {}), rows, style);
}

}  // namespace terrace::cli
