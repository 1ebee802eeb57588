#include "tools/cli/daemon/codec_rows.h"

#include <catch2/catch.hpp>

using namespace terrace::cli;
using nlohmann::json;

namespace {

const json counters{{"zvc_content_bytes", 4'000'000}, {"zvc_frame_bytes", 1'600'000},
                    {"zvc_compress_ns", 2'000'000},   {"zvc_decompress_seconds", 0.5},
                    {"rle_content_bytes", 0},         {"rle_frame_bytes", 0}};

}  // namespace

TEST_CASE("ACodecThatWasUsedIsARow") {
  const Rows rows = codec_rows(counters);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0]["codec"] == "zvc");
  CHECK(rows[0]["tier"] == "nvme");
  CHECK(rows[0]["saved_bytes"] == 2'400'000);
  CHECK(rows[0]["ratio"].get<double>() == Approx(2.5));
}

TEST_CASE("TimesAreSecondsWhateverUnitTheCountersHave") {
  const json row = codec_rows(counters)[0];
  CHECK(row["compress_seconds"].get<double>() == Approx(0.002));
  CHECK(row["decompress_seconds"].get<double>() == Approx(0.5));
}

TEST_CASE("NothingCompressedIsNoTable") {
  CHECK(codec_rows(json::object()).empty());
  CHECK(codec_rows(nullptr).empty());
  CHECK(codec_table({}, {}).empty());
}

TEST_CASE("TheTableNamesCodecTierAndRatio") {
  const std::string text = codec_table(codec_rows(counters), {});
  CHECK(text.find("CODEC") != std::string::npos);
  CHECK(text.find("2.50") != std::string::npos);
}

TEST_CASE("FramesLargerThanTheirContentSaveNothing") {
  const json row = codec_rows({{"csr8_content_bytes", 10}, {"csr8_frame_bytes", 12}})[0];
  CHECK(row["saved_bytes"] == 0);
}
