// What the codecs make of data of every sparsity and width, beside the 1 / ((1 - s) + 1 / b) of a mask and
// packed values of b bits. Whole frames count: header, table, padding.
#pragma once

#include <nlohmann/json.hpp>

namespace terrace::bench {

// One row for each width and sparsity, of `tensor_bytes` each; every frame is decompressed and compared.
nlohmann::ordered_json measure_ratios(std::size_t tensor_bytes);

// zvc_exp on the data that its targets are set for: 62% zeros, f32, bf16 and f16; and f32 that was rounded to
// bf16, ReLU6, half-Laplace, dead channels.
nlohmann::ordered_json measure_exponent_ratios(std::size_t tensor_bytes);

}  // namespace terrace::bench
