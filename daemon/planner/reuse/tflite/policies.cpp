// TFLite's strategies as policies: an instance becomes records, the answer goes back to the order of the
// buffers.
#include "daemon/planner/reuse/families.h"
#include "daemon/planner/reuse/tflite/strategies.h"

namespace terrace::planner {
namespace {

using tflite::InstanceRecords;
using tflite::Records;
using tflite::Stop;

// Solve: (const InstanceRecords&, const Stop&) -> Result<Objects> or Result<Placement>, of the records.
template <class Solve>
Result<Placement> place(const Instance& instance, const SearchControl& control, Solve solve) {
  const InstanceRecords records = tflite::records_of(instance);
  auto of_records = solve(records, control.stop);
  if (!of_records) return refused<Placement>(of_records.error);
  return ok(tflite::placement_of(instance, records, *of_records));
}

// Strategies that cannot fail and take nothing but records.
template <Objects (*Strategy)(Records)>
Result<Placement> place_by(const Instance& instance, const SearchControl& control) {
  return place(instance, control,
               [](const InstanceRecords& r, const Stop&) { return ok(Strategy(r.records)); });
}

template <Result<Objects> (*Strategy)(Records, const Stop&)>
Result<Placement> place_by_steered(const Instance& instance, const SearchControl& control) {
  return place(instance, control,
               [](const InstanceRecords& r, const Stop& stop) { return Strategy(r.records, stop); });
}

Objects in_any_order(Records records) { return tflite::in_order(records); }

Result<Placement> place_tflite_by_size(const Instance& instance, const SearchControl& control) {
  return place(instance, control, [](const InstanceRecords& r, const Stop& stop) {
    return tflite::by_size(r.records, r.alignment, stop);
  });
}

Result<Placement> place_in_arena(const Instance& instance, const SearchControl& control) {
  return place(instance, control, [](const InstanceRecords& r, const Stop& stop) {
    return tflite::arena(r.records, r.tasks, r.alignment, stop);
  });
}

// GREEDY_BEST: by size unless by breadth is smaller. Compared after the objects are laid out, so that it
// holds with alignments, too.
Result<Placement> place_best(const Instance& instance, const SearchControl& control) {
  Result<Placement> best = place_by_steered<tflite::by_size_objects>(instance, control);
  if (!best) return best;
  Result<Placement> other = place_by<tflite::by_breadth>(instance, control);
  return other && other->total_bytes < best->total_bytes ? other : best;
}

}  // namespace

std::vector<ReusePolicy> tflite_policies() {
  const char* const gpu = "LiteRT, delegates/gpu/common/memory_management";
  const char* const family = "tflite";
  return {
      {"tflite_naive", family, gpu, place_by<tflite::naive>},
      {"tflite_equality", family, gpu, place_by<tflite::equality>},
      {"tflite_in_order", family, gpu, place_by<in_any_order>},
      {"tflite_by_breadth", family, gpu, place_by<tflite::by_breadth>},
      {"tflite_by_size", family, gpu, place_tflite_by_size},
      {"tflite_by_size_objects", family, gpu, place_by_steered<tflite::by_size_objects>},
      {"tflite_best", family, gpu, place_best},
      {"tflite_min_cost_flow", family, gpu, place_by_steered<tflite::min_cost_flow>},
      {"tflite_arena", family, "LiteRT, arena_planner.cc and simple_memory_arena.cc", place_in_arena},
  };
}

}  // namespace terrace::planner
