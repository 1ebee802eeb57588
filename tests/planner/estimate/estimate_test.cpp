#include "daemon/planner/estimate/estimate.h"

#include <catch2/catch.hpp>

#include "daemon/planner/reuse/instance.h"
#include "daemon/planner/trace_json.h"
#include "tests/planner/reference_data.h"
#include "tools/import/import.h"

namespace terrace::planner {
namespace {

using wire::TensorKind;

wire::TraceTensor tensor(std::uint64_t id, std::uint64_t bytes, TensorKind kind, bool persistent = false) {
  return {id, bytes, kind, persistent, {}, {}, {}};
}

// Forward makes 1, backward makes 2 from it, the update uses 2; the workspace of "backward" makes the peak.
wire::Trace step() {
  wire::Trace trace;
  trace.tensors = {tensor(0, 1000, TensorKind::weight, true), tensor(1, 700, TensorKind::activation),
                   tensor(2, 1000, TensorKind::gradient), tensor(3, 300, TensorKind::optimizer, true),
                   tensor(4, 9999, TensorKind::other)};
  trace.ops = {{"forward", 1, {0}, {1}, 0, {}, true},
               {"backward", 1, {0, 1}, {2}, 50, {}, true},
               {"update", 1, {0, 2, 3}, {0}, 0, {}, false}};
  return trace;
}

}  // namespace

TEST_CASE("The peak is taken apart by class, rounding included") {
  const MemoryEstimate e = estimate_memory(step(), {512});
  CHECK(e.peak_op == 1);
  CHECK(e.at_peak.of(TensorKind::weight) == 1000);
  CHECK(e.at_peak.of(TensorKind::activation) == 700);
  CHECK(e.at_peak.of(TensorKind::gradient) == 1000);
  CHECK(e.at_peak.of(TensorKind::optimizer) == 300);
  CHECK(e.at_peak.of(TensorKind::workspace) == 50);
  CHECK(e.at_peak.of(TensorKind::other) == 0);  // nothing names it
  CHECK(e.at_peak.rounding_bytes == 24 + 324 + 24 + 212 + 462);
  CHECK(e.at_peak.total_bytes() == 1024 + 1024 + 1024 + 512 + 512);
  CHECK(e.persistent_bytes == 1300);
  CHECK(e.largest.of(TensorKind::workspace) == 50);
}

TEST_CASE("Without rounding the peak is the bound of every placement") {
  const wire::Trace trace = step();
  CHECK(estimate_memory(trace, {1}).at_peak.total_bytes() == max_live_bytes(instance_of(trace).buffers));
  CHECK(estimate_memory(trace, {0}).at_peak.rounding_bytes == 0);
  CHECK(estimate_memory({}, {512}).at_peak.total_bytes() == 0);
}

TEST_CASE("On the reference traces the peak is the bound, too") {
  for (const char* file :
       {"g10/BERT_Base-256.json.gz", "g10/VIT-1280.json.gz", "dtr/transformer-10.json.gz"}) {
    const std::optional<std::string> text = test::reference_data(file);
    if (!text) return;
    const Result<wire::Trace> trace = parse_trace(*text);
    REQUIRE(trace);
    CHECK(estimate_memory(*trace, {1}).at_peak.total_bytes() == max_live_bytes(instance_of(*trace).buffers));
  }
}

TEST_CASE("Against a run on a V100 the peak is what its allocator said") {
  const std::optional<std::string> text = test::reference_data("kineto/df_index_resolver.json.gz");
  if (!text) return;
  const Result<import::Imported> imported = import::import_kineto(*text);
  REQUIRE(imported);
  const MemoryEstimate e = estimate_memory(imported->trace);
  CHECK(e.at_peak.total_bytes() == 6'629'508'096);  // the largest "Total Allocated" of the log
  CHECK(e.at_peak.rounding_bytes == 0);             // its sizes are rounded already
  CHECK(e.persistent_bytes == 4'096'614'400);
}

}  // namespace terrace::planner
