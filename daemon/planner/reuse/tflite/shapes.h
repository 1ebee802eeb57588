// TFLite's strategies for textures, whose size is not one number: BHWC (four extents), uint2 and uint3 (image
// width and height, and depth). An object of a shape can serve a tensor of the same shape (EQUALITY) or, for
// uint2 and uint3, one that it covers in every extent (GREEDY_IN_ORDER); shapes never grow.
//
// Source: LiteRT,
// tflite/delegates/gpu/common/memory_management/{naive,equality,greedy_in_order}_assignment.h. BHWC and bytes
// go through a hash of LIFO stacks, uint2 and uint3 through a scan by id: on the same records the two give
// different ids, so both are here.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/planner/reuse/tflite/records.h"

namespace terrace::planner::tflite {

template <std::size_t N>
using Shape = std::array<std::uint32_t, N>;

template <std::size_t N>
struct ShapeObjects {
  std::vector<std::uint32_t> object_of;  // one per record
  std::vector<Shape<N>> shapes;          // one per object
};

// N is 2, 3 or 4. One object per tensor.
template <std::size_t N>
ShapeObjects<N> naive_shapes(std::span<const UsageRecord<Shape<N>>> records);

// Of equal shape and free, the one that came free last. TFLite does this for BHWC.
ShapeObjects<4> equality_shapes_lifo(std::span<const UsageRecord<Shape<4>>> records);

// N is 2 or 3. Of equal shape and free, the one with the smallest id. O(n * objects).
template <std::size_t N>
ShapeObjects<N> equality_shapes(std::span<const UsageRecord<Shape<N>>> records);

// N is 2 or 3. Of the free ones that cover the tensor, the one with the fewest elements to spare, then the
// one that came free first. O(n * objects).
template <std::size_t N>
ShapeObjects<N> in_order_shapes(std::span<const UsageRecord<Shape<N>>> records);

}  // namespace terrace::planner::tflite
