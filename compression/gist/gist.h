// Gist's encodings (Jain et al., ISCA 2018, section IV) by name: smaller stand-ins for a feature map between
// its forward and its backward use. None of them is a codec of a frame: each knows what the layer's gradient
// needs and keeps only that. A caller opts in, layer by layer. (Gist's fourth, SSDC, is lossless and general:
// the codec csr8.)
//
//   binarize   ReLU's backward needs only where the output was above zero: 1 bit an element, exact for the
//   gradient argmax     max pooling's backward needs only which element of a window won: 4 bits an output,
//   exact dpr16 …    delayed precision reduction: 16, 10 or 8 bits for an f32, lossy; exact for what the
//   small format holds
//
// In prose, with the bit layouts and what each does with NaN, infinities and denormals: docs/formats/gist.md.
// All work on integers but for the sums of pool_backward, so FTZ and DAZ change nothing. Nothing is
// allocated, no state is kept, no pointer needs to be aligned. On an error no output has been touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "compression/base/element.h"

namespace terrace::compression::gist {

enum class Error : std::uint8_t {
  none = 0,
  wrong_type,  // integers have no ReLU here
  wrong_size,  // a buffer's size does not follow from the other's or from the shape
  bad_shape,   // a window of 0 or over 4, no stride, padding as wide as the window, a plane smaller than the
               // window
  bad_position,  // an argmax outside its window or in the padding
  bad_code,      // dpr10: a bit that stands for no value is set
};

// What to tell a user: "a buffer's size does not fit the tensor's".
const char* describe(Error error);

// ---- binarize: bit i % 64 of word i / 64 (eight bytes, little-endian) is 1 where the gradient passes
// element i.

constexpr std::size_t mask_bytes(std::size_t elements) { return (elements / 64 + (elements % 64 != 0)) * 8; }

// From a ReLU's output, or from its input, which gives the same bits. A NaN passes the gradient, as in
// PyTorch.
Error binarize(ElementType type, std::span<const std::byte> values, std::span<std::byte> mask);
// ReLU and binarize in one pass. `output` may be `input`. NaN stays NaN, -0.0 becomes 0.
Error relu_binarize(ElementType type, std::span<const std::byte> input, std::span<std::byte> output,
                    std::span<std::byte> mask);
// The gradient straight from the mask: gradient_in = gradient_out where the bit is 1, +0 elsewhere. Both may
// be the same memory. Bits of the mask behind the last element are ignored.
Error relu_backward(ElementType type, std::span<const std::byte> gradient_out,
                    std::span<const std::byte> mask, std::span<std::byte> gradient_in);

// ---- argmax: outputs 2 i and 2 i + 1 share byte i, the first in its low half: row × window width + column.

// Planes one behind the other (NCHW: planes = N × C), each padded with what never wins.
struct Pool {
  std::size_t planes = 0;
  std::uint32_t height = 0, width = 0;                  // of an input plane; at most 2^20 each
  std::uint32_t window_height = 2, window_width = 2;    // 1 to 4
  std::uint32_t stride_height = 2, stride_width = 2;    // 1 to 2^20
  std::uint32_t padding_height = 0, padding_width = 0;  // on both sides; less than the window

  bool valid() const;  // what follows is for valid ones
  std::uint32_t output_height() const {
    return (height + 2 * padding_height - window_height) / stride_height + 1;
  }
  std::uint32_t output_width() const { return (width + 2 * padding_width - window_width) / stride_width + 1; }
  std::size_t inputs() const { return planes * height * width; }
  std::size_t outputs() const { return planes * output_height() * output_width(); }
};

constexpr std::size_t argmax_bytes(std::size_t outputs) { return outputs / 2 + outputs % 2; }

// The first of equal maxima wins, and a NaN wins over all before it (PyTorch's rule).
Error pool_forward(ElementType type, const Pool& pool, std::span<const std::byte> input,
                   std::span<std::byte> output, std::span<std::byte> argmax);
// Adds up the gradients of all windows that an element won, in the order of the outputs: f64 in double, the
// others in float, rounded once.
Error pool_backward(ElementType type, const Pool& pool, std::span<const std::byte> gradient_out,
                    std::span<const std::byte> argmax, std::span<std::byte> gradient_in);

// ---- delayed precision reduction of f32.

enum class Precision : std::uint8_t {
  dpr16,  // IEEE binary16
  dpr10,  // 1 sign, 5 exponent and 4 mantissa bits, after IEEE's rules; three in a 32-bit word
  dpr8,   // OCP E4M3: no infinity, one NaN, up to 448
};

constexpr std::size_t reduced_bytes(Precision precision, std::size_t values) {
  if (precision == Precision::dpr16) return 2 * values;
  return precision == Precision::dpr8 ? values : (values / 3 + (values % 3 != 0)) * 4;
}

// Rounds to nearest, ties to even. Beyond the largest finite number lies that number, as in Gist; infinities
// stay where the format has them. NaN stays NaN.
Error reduce(Precision precision, std::span<const std::byte> f32, std::span<std::byte> reduced);
// Exact: every code is an f32.
Error restore(Precision precision, std::span<const std::byte> reduced, std::span<std::byte> f32);

}  // namespace terrace::compression::gist
