// Activations of real networks, as capture_activations.py leaves them: raw files and an index.json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace terrace::bench {

// Ratios and speeds for each network and kind of weights, over all its tensors; each tensor, frame and result
// is put out of the caches before it is used. Ends the program, naming the file, if the directory is not what
// the script writes.
nlohmann::ordered_json measure_captured(const std::string& directory, long rounds);

}  // namespace terrace::bench
