// ReLU and one bit for each of its outputs.
//
// Elements are compared as integers. With s the sign bit and L the magnitude of infinity, an element passes
// the gradient if its bits, as a signed number, are above 0 (positive, or a NaN without sign) or, unsigned,
// above s + L (a NaN with sign). Groups of 64 make one word of the mask; the tests of a group go to 64 bytes
// first, a loop that compilers vectorise, and eight of those bytes become eight bits by one multiplication.
#include <type_traits>

#include "compression/gist/elements.h"
#include "compression/gist/gist.h"

namespace terrace::compression::gist {
namespace {

template <typename Bits>
bool passes(Bits bits, Bits negative_infinity) {
  return static_cast<std::make_signed_t<Bits>>(bits) > 0 || bits > negative_infinity;
}

template <typename Bits>
Bits negative_infinity_of(ElementType type) {
  return static_cast<Bits>((std::uint64_t{1} << (8 * sizeof(Bits) - 1)) | largest_magnitude(type));
}

// Byte i, 0 or 1, becomes bit i. Byte i times 2^(56 - 7 i) reaches bit 56 + i, and no two products meet.
std::uint64_t gather_bits(const std::uint8_t* flags) {
  std::uint64_t word = 0;
  for (unsigned i = 0; i < 8; ++i) {
    std::uint64_t eight;
    std::memcpy(&eight, flags + std::size_t{i} * 8, sizeof eight);
    word |= (eight * 0x0102040810204080) >> 56 << (8 * i);
  }
  return word;
}

// Up to 64 elements. With `output`, they go there, those that do not pass as zero.
template <typename Bits>
std::uint64_t binarize_group(const std::byte* in, std::size_t n, Bits negative_infinity, std::byte* output) {
  std::uint8_t flags[64] = {};
  for (std::size_t i = 0; i < n; ++i) flags[i] = passes(load<Bits>(in, i), negative_infinity);
  if (output != nullptr)
    for (std::size_t i = 0; i < n; ++i) store<Bits>(output, i, flags[i] != 0 ? load<Bits>(in, i) : Bits{0});
  return gather_bits(flags);
}

template <typename Bits>
void binarize_all(ElementType type, std::span<const std::byte> in, std::byte* output, std::byte* mask) {
  const auto negative_infinity = negative_infinity_of<Bits>(type);
  const std::size_t n = in.size() / sizeof(Bits);
  for (std::size_t first = 0, word = 0; first < n; first += 64, ++word) {
    const std::size_t offset = first * sizeof(Bits);
    std::byte* to = output != nullptr ? output + offset : nullptr;
    store(mask, word,
          binarize_group<Bits>(in.data() + offset, n - first < 64 ? n - first : 64, negative_infinity, to));
  }
}

template <typename Bits>
void mask_group(const std::byte* from, std::uint64_t word, std::size_t n, std::byte* to) {
  for (std::size_t i = 0; i < n; ++i)
    store<Bits>(to, i, static_cast<Bits>(load<Bits>(from, i) & static_cast<Bits>(0 - (word >> i & 1))));
}

template <typename Bits>
void mask_all(std::span<const std::byte> from, const std::byte* mask, std::byte* to) {
  const std::size_t n = from.size() / sizeof(Bits);
  for (std::size_t first = 0, word = 0; first < n; first += 64, ++word) {
    const std::size_t offset = first * sizeof(Bits);
    mask_group<Bits>(from.data() + offset, load<std::uint64_t>(mask, word), n - first < 64 ? n - first : 64,
                     to + offset);
  }
}

Error check(ElementType type, std::size_t values, std::size_t mask) {
  if (!is_floating(type)) return Error::wrong_type;
  return values % width_of(type) == 0 && mask == mask_bytes(values / width_of(type)) ? Error::none
                                                                                     : Error::wrong_size;
}

}  // namespace

Error binarize(ElementType type, std::span<const std::byte> values, std::span<std::byte> mask) {
  if (const Error error = check(type, values.size(), mask.size()); error != Error::none) return error;
  with_bits_of(type, [&]<typename Bits>() { binarize_all<Bits>(type, values, nullptr, mask.data()); });
  return Error::none;
}

Error relu_binarize(ElementType type, std::span<const std::byte> input, std::span<std::byte> output,
                    std::span<std::byte> mask) {
  if (const Error error = check(type, input.size(), mask.size()); error != Error::none) return error;
  if (output.size() != input.size()) return Error::wrong_size;
  with_bits_of(type, [&]<typename Bits>() { binarize_all<Bits>(type, input, output.data(), mask.data()); });
  return Error::none;
}

Error relu_backward(ElementType type, std::span<const std::byte> gradient_out,
                    std::span<const std::byte> mask, std::span<std::byte> gradient_in) {
  if (const Error error = check(type, gradient_out.size(), mask.size()); error != Error::none) return error;
  if (gradient_in.size() != gradient_out.size()) return Error::wrong_size;
  with_bits_of(type, [&]<typename Bits>() { mask_all<Bits>(gradient_out, mask.data(), gradient_in.data()); });
  return Error::none;
}

const char* describe(Error error) {
  switch (error) {
    case Error::none:
      return "no error";
    case Error::wrong_type:
      return "the element type is not floating point: only floating-point layers can be encoded";
    case Error::wrong_size:
      return "a buffer's size does not fit the tensor's: take it from mask_bytes, argmax_bytes or "
             "reduced_bytes";
    case Error::bad_shape:
      return "the pooling is out of range: windows are 1 to 4 wide, padding less than that, strides at least "
             "1";
    case Error::bad_position:
      return "an argmax lies outside its window: it was damaged, or belongs to another pooling";
    case Error::bad_code:
      return "reduced values are damaged: a bit that stands for no value is set";
  }
  return "unknown error";
}

}  // namespace terrace::compression::gist
