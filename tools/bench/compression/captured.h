// Activations of real networks, as capture_activations.py leaves them: raw files and an index.json.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/bench/compression/memory.h"

namespace terrace::bench {

struct CapturedTensor {
  std::size_t bytes;
  std::unique_ptr<Buffer> content;
  std::span<const std::byte> data() const { return content->bytes().first(bytes); }
};

// What one network held, with one kind of weights ("fresh", "trained").
struct CapturedNetwork {
  std::string network;
  std::string weights;
  std::vector<CapturedTensor> tensors;
};

// Everything in the directory. Ends the program, naming the file, if it is not what the script writes.
std::vector<CapturedNetwork> load_captured(const std::string& directory);

// Ratios and speeds for each network over all its tensors; each tensor, frame and result is put out of the
// caches before it is used.
nlohmann::ordered_json measure_captured(const std::vector<CapturedNetwork>& networks, long rounds);

}  // namespace terrace::bench
