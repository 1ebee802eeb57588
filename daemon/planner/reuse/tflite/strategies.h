// The memory strategies of TFLite's (now LiteRT's) GPU delegate and its CPU arena, with their tie rules: on
// records as in its own tests they give the same object ids and offsets.
//
// Source: google-ai-edge/LiteRT, tflite/delegates/gpu/common/memory_management*, tflite/{arena_planner,
// simple_memory_arena}.cc; Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference",
// 2020.
//
// All take records in the order of their first tasks, with sizes that together stay below max_instance_bytes.
// `stop` may be empty; a strategy that is stopped has no answer, because a part of an assignment is none.
#pragma once

#include <functional>
#include <vector>

#include "daemon/planner/reuse/tflite/records.h"

namespace terrace::planner::tflite {

using Stop = std::function<bool()>;

// Vertices by index; for each the sorted indices of its neighbours.
using UsageGraph = std::vector<std::vector<std::uint32_t>>;

// NAIVE: an object of its own for each.
Objects naive(Records records);

// EQUALITY: objects of exactly the size wanted.
Objects equality(Records records);

// GREEDY_IN_ORDER: the free object closest in size, which grows if it must. With a graph from
// reallocation_graph() only objects whose last tensor has an edge to the new one, and then the whole pool is
// searched. O(n log n), with a graph O(n * objects).
Objects in_order(Records records, const UsageGraph* reallocation = nullptr);

// GREEDY_BY_BREADTH: tasks with the most live bytes first, in each the largest tensor first. O(n * objects).
Objects by_breadth(Records records);

// GREEDY_BY_SIZE for objects: tensors by their place among the positional maxima, and each to the object
// whose nearest use is closest in time. O(n^2); refuses when the table of distances (unplaced tensors of one
// place times objects) would exceed 512 MiB.
Result<Objects> by_size_objects(Records records, const Stop& stop);

// MINCOSTFLOW: chains of tensors that follow each other in one object, such that the sum of all growths is
// least. Exactly TFLite's ids for up to 256 records; above, a flow of the same cost found by network simplex,
// whose chains may differ. Refuses above 6 million pairs of tensors that could share (about 3,500 tensors).
Result<Objects> min_cost_flow(Records records, const Stop& stop);

// GREEDY_BY_SIZE for offsets: largest first into the smallest gap among those that live at the same time. The
// end of each neighbour is rounded up to `alignment`. O(n^2).
Result<Placement> by_size(Records records, std::uint64_t alignment, const Stop& stop);

// The CPU's ArenaPlanner: tensors that live through all `tasks` first, then the largest, into the smallest
// gap at an offset rounded up to `alignment`. O(n^2).
Result<Placement> arena(Records records, std::uint32_t tasks, std::uint64_t alignment, const Stop& stop);

// For each task the live records, largest first, ties to the smaller index. O(sum of lives).
std::vector<std::vector<std::uint32_t>> task_profiles(Records records);

// At j, the largest size that is the j-th largest of some task: no assignment to objects has a smaller total
// than their sum. O(n * most live records).
std::vector<std::uint64_t> positional_maxima(Records records);

// An edge x to y where every child of x reaches y, or the other way round: then y may take the memory of x in
// whatever order the graph is executed. `dependencies` holds the children of each vertex.
UsageGraph reallocation_graph(const UsageGraph& dependencies);

}  // namespace terrace::planner::tflite
