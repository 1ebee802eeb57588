// One competitor's side of `terrace bench malloc --simulated-heap`: large blocks by the TiB, never touched.
#pragma once

#include <nlohmann/json.hpp>

namespace terrace::bench {

// Hands out about `bytes` of addresses in blocks of 64 MiB to `threads` threads, lets all of them allocate
// and free further blocks at once, and frees everything. Nanoseconds by name, the longest waits too, and what
// share of the addresses Terrace's heap gave (the rest came from the next allocator).
nlohmann::ordered_json measure_simulated_heap(std::size_t bytes, std::size_t threads);

}  // namespace terrace::bench
