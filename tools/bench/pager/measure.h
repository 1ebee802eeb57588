// One mover's side of `terrace bench pager`: evicts and restores a block in the process that it runs in.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>

namespace terrace::bench {

// Rates in bytes per second, latencies in microseconds, shares from 0 to 1, by name. Ends the program with
// the reason where the pager is not active.
nlohmann::json measure_pager(std::size_t bytes);

}  // namespace terrace::bench
