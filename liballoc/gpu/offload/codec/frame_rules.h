// What frames of tensors have in common, whoever makes them.
#pragma once

#include <cstdint>

#include "compression/base/element.h"
#include "liballoc/gpu/offload/tensors/tensor.h"

namespace terrace::liballoc::offload {

// What is not whole elements is bytes.
inline compression::ElementType element_of(const Tensor& tensor) {
  const bool is_whole = tensor.bytes % compression::width_of(tensor.element) == 0;
  return is_whole ? tensor.element : compression::ElementType::u8;
}

// A frame that saves less is not worth the time that decompressing takes.
inline constexpr double largest_fraction = 15.0 / 16;
constexpr bool is_worth_keeping(std::uint64_t frame_bytes, std::uint64_t content_bytes) {
  return frame_bytes <= content_bytes / 16 * 15;
}

// Tensors that are alike: those of a site; where none is told, those of one size and type.
inline std::uint64_t class_of(const Tensor& tensor) {
  return tensor.site != 0 ? tensor.site : tensor.bytes * 16 + static_cast<unsigned>(tensor.element);
}
inline constexpr unsigned class_slots_log2 = 10;
// Its slot in a table of 2^class_slots_log2: two that share one learn from each other, no more.
inline std::size_t slot_of(std::uint64_t tensor_class) {
  return tensor_class * 0x9e3779b97f4a7c15 >> (64 - class_slots_log2);
}

}  // namespace terrace::liballoc::offload
