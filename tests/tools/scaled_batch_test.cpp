// Which tensors and times of a step scale with its batch.
#include "tools/bench/policies/scaled_batch.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <sstream>

#include "daemon/planner/reuse/instance.h"
#include "daemon/planner/trace_json.h"
#include "tests/planner/reference_data.h"

using namespace terrace;
using bench::with_scaled_batch;
using planner::test::reference_data;
using wire::TensorKind;
using wire::Trace;

namespace {

// A layer with batch normalisation and a bias that is broadcast, forward, back and updated.
enum : std::uint32_t {
  image,
  weight,
  convolved,
  scale,
  saved_mean,
  running_mean,
  normalised,
  bias,
  sum,
  sum_gradient,
  bias_gradient,
  scale_gradient,
  mean_gradient,
  weight_gradient,
  momentum,
  matrix,
  product,
  tensors
};

Trace small_step() {
  constexpr std::uint64_t activation = 65536, few = 4096, filter = 16384;
  Trace trace;
  trace.name = "small";
  const auto add = [&](std::uint64_t bytes, TensorKind kind, bool persistent = false) {
    wire::TraceTensor tensor;
    tensor.id = trace.tensors.size();
    tensor.bytes = bytes;
    tensor.kind = kind;
    tensor.persistent = persistent;
    trace.tensors.push_back(tensor);
  };
  add(30001, TensorKind::input);              // image
  add(filter, TensorKind::weight, true);      // weight
  add(activation, TensorKind::activation);    // convolved
  add(few, TensorKind::weight, true);         // scale
  add(few, TensorKind::other);                // saved_mean
  add(few, TensorKind::other, true);          // running_mean
  add(activation, TensorKind::activation);    // normalised
  add(activation, TensorKind::weight, true);  // bias
  add(activation, TensorKind::activation);    // sum
  add(activation, TensorKind::gradient);      // sum_gradient
  add(activation, TensorKind::gradient);      // bias_gradient
  add(few, TensorKind::gradient);             // scale_gradient
  add(few, TensorKind::gradient);             // mean_gradient
  add(filter, TensorKind::gradient);          // weight_gradient
  add(filter, TensorKind::optimizer, true);   // momentum
  add(2 * few, TensorKind::weight, true);     // matrix
  add(2 * few, TensorKind::activation);       // product: as large by chance
  const auto run = [&](const char* name, std::vector<std::uint32_t> in, std::vector<std::uint32_t> out,
                       std::uint64_t workspace = 0) {
    trace.ops.push_back({name, 100, std::move(in), std::move(out), workspace, std::nullopt, true, {}});
  };
  run("convolution", {image, weight}, {convolved}, 8192);
  run("normalisation", {convolved, scale, running_mean}, {normalised, saved_mean, running_mean});
  run("bias", {normalised, bias}, {sum});
  run("loss", {sum}, {sum_gradient});
  run("bias back", {sum_gradient}, {bias_gradient});
  run("bias update", {bias, bias_gradient}, {bias});
  run("normalisation back", {scale, saved_mean, convolved, sum_gradient}, {scale_gradient, mean_gradient});
  run("scale update", {scale, scale_gradient}, {scale});
  run("convolution back", {image, sum_gradient}, {weight_gradient});
  run("weight update", {weight, weight_gradient, momentum}, {weight, momentum});
  run("fully connected", {sum, matrix}, {product});
  trace.ops[0].flops = 1000;
  trace.ops[0].variants = {{"slow", 200, 0}, {"fast", 50, 4096}};
  trace.tensors[convolved].shape = {8, 64};
  trace.tensors[weight].shape = {64, 64};
  return trace;
}

std::uint64_t cell(const std::string& summary, const std::string& row, int column) {
  std::istringstream lines(summary);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(row, 0) != 0) continue;
    std::istringstream stream(line);
    std::string text;
    for (int i = 0; i <= column; ++i) std::getline(stream, text, ',');
    return std::strtoull(text.c_str(), nullptr, 10);
  }
  return 0;
}

}  // namespace

TEST_CASE("Parameters, their gradients and statistics stay; what has the batch's shape scales",
          "[scaled_batch]") {
  const Trace before = small_step();
  REQUIRE(before.tensors.size() == tensors);
  const Trace after = with_scaled_batch(before, 2);
  for (const std::uint32_t t : {weight, scale, saved_mean, running_mean, scale_gradient, mean_gradient,
                                weight_gradient, momentum, matrix}) {
    CAPTURE(t);
    CHECK(after.tensors[t].bytes == before.tensors[t].bytes);
  }
  for (const std::uint32_t t :
       {image, convolved, normalised, bias, sum, sum_gradient, bias_gradient, product}) {
    CAPTURE(t);
    CHECK(after.tensors[t].bytes == 2 * before.tensors[t].bytes);
  }
  CHECK(after.tensors[convolved].shape.empty());
  CHECK(after.tensors[weight].shape == before.tensors[weight].shape);
  CHECK(after.name == "small x 2");
}

TEST_CASE("Operations on the batch take times the factor, an update of parameters what it took",
          "[scaled_batch]") {
  const Trace after = with_scaled_batch(small_step(), 0.5);
  const std::vector<double> times{50, 50, 50, 50, 50, 50, 50, 100, 50, 100, 50};
  REQUIRE(after.ops.size() == times.size());
  for (std::size_t n = 0; n < times.size(); ++n) {
    CAPTURE(after.ops[n].name);
    CHECK(after.ops[n].time_us == times[n]);
  }
  CHECK(after.ops[0].workspace_bytes == 4096);
  CHECK(after.ops[0].flops == 500);
  CHECK(after.ops[0].variants[0].time_us == 100);
  CHECK(after.ops[0].variants[1].time_us == 25);
  CHECK(after.ops[0].variants[1].workspace_bytes == 4096);
}

TEST_CASE("Whole pages stay whole pages, other sizes are rounded up to bytes", "[scaled_batch]") {
  const Trace after = with_scaled_batch(small_step(), 0.3);
  CHECK(after.tensors[convolved].bytes == 20480);  // 19,660.8
  CHECK(after.tensors[image].bytes == 9001);       // 9,000.3
  CHECK(with_scaled_batch(small_step(), 1).tensors[image].bytes == 30001);
}

// Sizes that G10's own graph builder has for other batches of the same networks (g10/summary.csv).
TEST_CASE("Scaled steps of G10 have the sizes of its own steps of that batch", "[scaled_batch]") {
  struct Batch {
    const char* trace;
    const char* row;
    double factor;
  };
  const Batch batches[] = {
      {"BERT_Base-256", "BERT_Base,128,", 0.5},         {"BERT_Base-256", "BERT_Base,512,", 2},
      {"BERT_Base-256", "BERT_Base,1024,", 4},          {"VIT-1280", "VIT,256,", 0.2},
      {"Inceptionv3-1536", "Inceptionv3,512,", 1 / 3.}, {"ResNet152-1280", "ResNet152,256,", 0.2},
      {"SENet154-1024", "SENet154,256,", 0.25}};
  const auto summary = reference_data("g10/summary.csv");
  if (!summary) return;
  for (const Batch& batch : batches) {
    const auto text = reference_data(std::string("g10/") + batch.trace + ".json.gz");
    if (!text) continue;
    auto trace = planner::parse_trace(*text);
    REQUIRE(trace);
    const Trace scaled = with_scaled_batch(std::move(*trace), batch.factor);
    std::uint64_t persistent = 0;
    for (const wire::TraceTensor& tensor : scaled.tensors)
      if (tensor.persistent) persistent += tensor.bytes;
    const auto peak = static_cast<double>(planner::max_live_bytes(planner::instance_of(scaled).buffers));
    CAPTURE(batch.row, peak, cell(*summary, batch.row, 6), persistent, cell(*summary, batch.row, 8));
    CHECK(static_cast<double>(persistent) == Approx(cell(*summary, batch.row, 8)).epsilon(0.001));
    CHECK(peak == Approx(cell(*summary, batch.row, 6)).epsilon(0.001));
  }
}
