#include "daemon/planner/reuse/tflite/shapes.h"

#include <algorithm>

#include "daemon/planner/reuse/tflite/equality_pool.h"
#include "daemon/planner/reuse/tflite/in_use.h"

namespace terrace::planner::tflite {
namespace {

template <std::size_t N>
std::uint64_t elements(const Shape<N>& shape) {
  std::uint64_t product = 1;
  for (const std::uint32_t extent : shape) product *= extent;
  return product;
}

template <std::size_t N>
bool covers(const Shape<N>& object, const Shape<N>& tensor) {
  return std::equal(object.begin(), object.end(), tensor.begin(), std::greater_equal<>());
}

template <std::size_t N>
std::uint32_t new_object(ShapeObjects<N>* objects, const Shape<N>& shape) {
  objects->shapes.push_back(shape);
  return static_cast<std::uint32_t>(objects->shapes.size() - 1);
}

// Index into the pool of the best that covers the tensor, or the pool's size.
template <std::size_t N>
std::size_t best_cover(const std::vector<std::uint32_t>& pool, const ShapeObjects<N>& objects,
                       const Shape<N>& tensor) {
  std::size_t best = pool.size();
  std::uint64_t best_spare = 0;
  for (std::size_t i = 0; i < pool.size(); ++i) {
    const Shape<N>& shape = objects.shapes[pool[i]];
    if (!covers(shape, tensor)) continue;
    const std::uint64_t spare = elements(shape) - elements(tensor);
    if (best != pool.size() && spare >= best_spare) continue;
    best = i;
    best_spare = spare;
  }
  return best;
}

}  // namespace

template <std::size_t N>
ShapeObjects<N> naive_shapes(std::span<const UsageRecord<Shape<N>>> records) {
  ShapeObjects<N> objects;
  for (const auto& record : records) objects.object_of.push_back(new_object(&objects, record.size));
  return objects;
}

ShapeObjects<4> equality_shapes_lifo(std::span<const UsageRecord<Shape<4>>> records) {
  ShapeObjects<4> objects;
  assign_equal<Shape<4>>(records, &objects.object_of, &objects.shapes);
  return objects;
}

template <std::size_t N>
ShapeObjects<N> equality_shapes(std::span<const UsageRecord<Shape<N>>> records) {
  ShapeObjects<N> objects;
  std::vector<std::uint32_t> last_task;  // of each object
  for (const auto& record : records) {
    std::uint32_t object = 0;
    while (object < last_task.size() &&
           (last_task[object] >= record.first_task || objects.shapes[object] != record.size))
      ++object;
    if (object == last_task.size()) {
      new_object(&objects, record.size);
      last_task.push_back(0);
    }
    last_task[object] = record.last_task;
    objects.object_of.push_back(object);
  }
  return objects;
}

template <std::size_t N>
ShapeObjects<N> in_order_shapes(std::span<const UsageRecord<Shape<N>>> records) {
  ShapeObjects<N> objects;
  std::vector<std::uint32_t> pool;  // in the order of release
  InUse in_use;
  for (const auto& record : records) {
    in_use.release_before(record.first_task, [&](std::uint32_t object) { pool.push_back(object); });
    const std::size_t best = best_cover(pool, objects, record.size);
    if (best == pool.size()) {
      objects.object_of.push_back(new_object(&objects, record.size));
    } else {
      objects.object_of.push_back(pool[best]);
      pool.erase(pool.begin() + static_cast<std::ptrdiff_t>(best));
    }
    in_use.push(record.last_task, objects.object_of.back());
  }
  return objects;
}

template ShapeObjects<2> naive_shapes(std::span<const UsageRecord<Shape<2>>>);
template ShapeObjects<3> naive_shapes(std::span<const UsageRecord<Shape<3>>>);
template ShapeObjects<4> naive_shapes(std::span<const UsageRecord<Shape<4>>>);
template ShapeObjects<2> equality_shapes(std::span<const UsageRecord<Shape<2>>>);
template ShapeObjects<3> equality_shapes(std::span<const UsageRecord<Shape<3>>>);
template ShapeObjects<2> in_order_shapes(std::span<const UsageRecord<Shape<2>>>);
template ShapeObjects<3> in_order_shapes(std::span<const UsageRecord<Shape<3>>>);

}  // namespace terrace::planner::tflite
