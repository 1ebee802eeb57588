// TFLite's vectors for textures: BHWC, uint2 and uint3.
#include <catch2/catch.hpp>

#include "daemon/planner/reuse/tflite/shapes.h"
#include "tests/planner/tflite/vectors.h"

namespace terrace::planner::tflite::test {
namespace {

using nlohmann::json;

json case_of(const char* type) {
  const json all = vectors();
  for (const auto& c : all["cases"])
    if (c["size_type"] == type) return c;
  FAIL("no case of type " << type);
  return {};
}

template <std::size_t N>
void check(const ShapeObjects<N>& objects, const json& expected) {
  CHECK(objects.object_of == expected["object_ids"].get<std::vector<std::uint32_t>>());
  CHECK(objects.shapes == expected["object_sizes"].get<std::vector<Shape<N>>>());
}

template <std::size_t N>
void check_images(const char* type) {
  const json c = case_of(type);
  const auto records = records_in<Shape<N>>(c["records"]);
  const std::span<const UsageRecord<Shape<N>>> all(records);
  check<N>(naive_shapes<N>(all), c["objects"]["NAIVE"]);
  check<N>(equality_shapes<N>(all), c["objects"]["EQUALITY"]);
  check<N>(in_order_shapes<N>(all), c["objects"]["GREEDY_IN_ORDER"]);
  CHECK(c["objects"].size() == 3);
}

}  // namespace

TEST_CASE("BHWC shapes get TFLite's objects") {
  const json c = case_of("BHWC");
  const auto records = records_in<Shape<4>>(c["records"]);
  check<4>(naive_shapes<4>(std::span<const UsageRecord<Shape<4>>>(records)), c["objects"]["NAIVE"]);
  check<4>(equality_shapes_lifo(records), c["objects"]["EQUALITY"]);
  CHECK(c["objects"].size() == 2);
}

TEST_CASE("uint2 shapes get TFLite's objects") { check_images<2>("uint2"); }

TEST_CASE("uint3 shapes get TFLite's objects") { check_images<3>("uint3"); }

}  // namespace terrace::planner::tflite::test
