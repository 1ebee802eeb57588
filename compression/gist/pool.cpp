// Max pooling with its argmax in 4 bits, and the way back.
//
// Backward gathers where frameworks scatter: each input element asks the windows over it (at most 16) whether
// it won. So no memory needs to be zeroed first, a sum in f16 or less is kept in a float and rounded once,
// and the order of the additions is that of the outputs whatever the windows' overlap. What won is decided on
// integers; see key_of().
#include <algorithm>
#include <bit>
#include <limits>

#include "compression/gist/elements.h"
#include "compression/gist/gist.h"
#include "compression/gist/number.h"

namespace terrace::compression::gist {
namespace {

constexpr std::uint32_t max_window = 4;  // 4 bits hold 16 positions
constexpr std::uint32_t max_side = 1U << 20;
constexpr std::size_t max_elements = std::size_t{1} << 40;

// Orders elements as numbers do: -0.0 equals 0.0, a NaN is above all.
template <typename Bits>
std::int64_t key_of(Bits bits, std::uint64_t largest) {
  constexpr std::uint64_t sign = std::uint64_t{1} << (8 * sizeof(Bits) - 1);
  const std::uint64_t magnitude = bits & (sign - 1);
  if (magnitude > largest) return std::numeric_limits<std::int64_t>::max();
  return (bits & sign) != 0 ? -static_cast<std::int64_t>(magnitude) : static_cast<std::int64_t>(magnitude);
}

// The part of a window, along one axis, that lies in the plane.
struct Reach {
  std::int64_t first;  // of the window, may lie in the padding
  std::uint32_t from, to;
};

Reach reach_of(std::uint32_t output, std::uint32_t stride, std::uint32_t padding, std::uint32_t window,
               std::uint32_t side) {
  const std::int64_t first = std::int64_t{output} * stride - padding;
  return {first, static_cast<std::uint32_t>(std::max<std::int64_t>(0, -first)),
          static_cast<std::uint32_t>(std::min<std::int64_t>(window, side - first))};
}

Reach rows_of(const Pool& pool, std::uint32_t y) {
  return reach_of(y, pool.stride_height, pool.padding_height, pool.window_height, pool.height);
}

Reach columns_of(const Pool& pool, std::uint32_t x) {
  return reach_of(x, pool.stride_width, pool.padding_width, pool.window_width, pool.width);
}

struct Winner {
  std::uint32_t position;
  std::size_t element;  // in its plane
};

template <typename Bits>
Winner winner_of(const Pool& pool, const std::byte* plane, const Reach& rows, const Reach& columns,
                 std::uint64_t largest) {
  constexpr std::int64_t nan = std::numeric_limits<std::int64_t>::max();
  Winner best = {};
  std::int64_t best_key = std::numeric_limits<std::int64_t>::min();
  for (std::uint32_t r = rows.from; r < rows.to; ++r)
    for (std::uint32_t c = columns.from; c < columns.to; ++c) {
      const std::size_t element =
          static_cast<std::size_t>(rows.first + r) * pool.width + static_cast<std::size_t>(columns.first + c);
      const std::int64_t key = key_of(load<Bits>(plane, element), largest);
      if (key <= best_key && key != nan) continue;
      best = {r * pool.window_width + c, element};
      best_key = key;
    }
  return best;
}

void put_position(std::byte* argmax, std::size_t output, std::uint32_t position) {
  if (output % 2 == 0)
    argmax[output / 2] = static_cast<std::byte>(position);
  else
    argmax[output / 2] |= static_cast<std::byte>(position << 4);
}

std::uint32_t position_at(const std::byte* argmax, std::size_t output) {
  return std::to_integer<std::uint32_t>(argmax[output / 2]) >> (output % 2 * 4) & 15;
}

template <typename Bits>
void pool_all(ElementType type, const Pool& pool, const std::byte* input, std::byte* output,
              std::byte* argmax) {
  const std::size_t plane_bytes = std::size_t{pool.height} * pool.width * sizeof(Bits);
  const std::uint64_t largest = largest_magnitude(type);
  std::size_t o = 0;
  for (std::size_t p = 0; p < pool.planes; ++p, input += plane_bytes)
    for (std::uint32_t y = 0; y < pool.output_height(); ++y)
      for (std::uint32_t x = 0; x < pool.output_width(); ++x, ++o) {
        const Winner won = winner_of<Bits>(pool, input, rows_of(pool, y), columns_of(pool, x), largest);
        store(output, o, load<Bits>(input, won.element));
        put_position(argmax, o, won.position);
      }
}

bool lies_in(const Pool& pool, std::uint32_t position, const Reach& rows, const Reach& columns) {
  const std::uint32_t r = position / pool.window_width;
  const std::uint32_t c = position % pool.window_width;
  return r >= rows.from && r < rows.to && c >= columns.from && c < columns.to;
}

bool positions_are_good(const Pool& pool, std::span<const std::byte> argmax) {
  std::size_t o = 0;
  for (std::size_t p = 0; p < pool.planes; ++p)
    for (std::uint32_t y = 0; y < pool.output_height(); ++y)
      for (std::uint32_t x = 0; x < pool.output_width(); ++x, ++o)
        if (!lies_in(pool, position_at(argmax.data(), o), rows_of(pool, y), columns_of(pool, x)))
          return false;
  return o % 2 == 0 || position_at(argmax.data(), o) == 0;
}

// The outputs, along one axis, whose windows reach element i.
struct Outputs {
  std::uint32_t from, to;
};

Outputs outputs_over(std::uint32_t i, std::uint32_t stride, std::uint32_t padding, std::uint32_t window,
                     std::uint32_t outputs) {
  const std::uint32_t last = i + padding;  // what a window may begin at, counted with the padding
  const std::uint32_t first = last >= window ? last - window + 1 : 0;
  return {(first + stride - 1) / stride, std::min(last / stride + 1, outputs)};
}

// How gradients of a type are added up.
template <typename Bits>
struct Sum {
  NumberFormat format;
  float total = 0;
  void add(Bits bits) { total += std::bit_cast<float>(decode(format, bits)); }
  Bits result() const {
    return static_cast<Bits>(encode(format, std::bit_cast<std::uint32_t>(total), Overflow::ieee));
  }
};

template <>
struct Sum<std::uint64_t> {
  NumberFormat format;
  double total = 0;
  void add(std::uint64_t bits) { total += std::bit_cast<double>(bits); }
  std::uint64_t result() const { return std::bit_cast<std::uint64_t>(total); }
};

// One plane on the way back.
template <typename Bits>
struct Plane {
  const Pool& pool;
  NumberFormat format;
  const std::byte* gradient_out;  // of all planes
  const std::byte* argmax;
  std::size_t first_output;

  Bits at(std::uint32_t y, std::uint32_t x) const {
    const Outputs rows =
        outputs_over(y, pool.stride_height, pool.padding_height, pool.window_height, pool.output_height());
    const Outputs columns =
        outputs_over(x, pool.stride_width, pool.padding_width, pool.window_width, pool.output_width());
    Sum<Bits> sum{format};
    for (std::uint32_t oy = rows.from; oy < rows.to; ++oy)
      for (std::uint32_t ox = columns.from; ox < columns.to; ++ox) add_if_won(sum, oy, ox, y, x);
    return sum.result();
  }

  void add_if_won(Sum<Bits>& sum, std::uint32_t oy, std::uint32_t ox, std::uint32_t y,
                  std::uint32_t x) const {
    const std::size_t o = first_output + std::size_t{oy} * pool.output_width() + ox;
    const std::uint32_t row = y + pool.padding_height - oy * pool.stride_height;
    const std::uint32_t column = x + pool.padding_width - ox * pool.stride_width;
    if (position_at(argmax, o) == row * pool.window_width + column) sum.add(load<Bits>(gradient_out, o));
  }
};

template <typename Bits>
void gather_all(ElementType type, const Pool& pool, const std::byte* gradient_out, const std::byte* argmax,
                std::byte* gradient_in) {
  const std::size_t plane_outputs = std::size_t{pool.output_height()} * pool.output_width();
  std::size_t i = 0;
  for (std::size_t p = 0; p < pool.planes; ++p) {
    const Plane<Bits> plane{pool, format_of(type), gradient_out, argmax, p * plane_outputs};
    for (std::uint32_t y = 0; y < pool.height; ++y)
      for (std::uint32_t x = 0; x < pool.width; ++x, ++i) store(gradient_in, i, plane.at(y, x));
  }
}

bool valid_axis(std::uint32_t side, std::uint32_t window, std::uint32_t stride, std::uint32_t padding) {
  return side >= 1 && side <= max_side && window >= 1 && window <= max_window && stride >= 1 &&
         stride <= max_side && padding < window && side + 2 * padding >= window;
}

Error check(ElementType type, const Pool& pool, std::size_t input, std::size_t output, std::size_t argmax) {
  if (!is_floating(type)) return Error::wrong_type;
  if (!pool.valid()) return Error::bad_shape;
  const std::size_t width = width_of(type);
  return input == pool.inputs() * width && output == pool.outputs() * width &&
                 argmax == argmax_bytes(pool.outputs())
             ? Error::none
             : Error::wrong_size;
}

}  // namespace

bool Pool::valid() const {
  return valid_axis(height, window_height, stride_height, padding_height) &&
         valid_axis(width, window_width, stride_width, padding_width) &&
         planes <= max_elements / height / width;  // no product of these overflows
}

Error pool_forward(ElementType type, const Pool& pool, std::span<const std::byte> input,
                   std::span<std::byte> output, std::span<std::byte> argmax) {
  if (const Error error = check(type, pool, input.size(), output.size(), argmax.size()); error != Error::none)
    return error;
  with_bits_of(
      type, [&]<typename Bits>() { pool_all<Bits>(type, pool, input.data(), output.data(), argmax.data()); });
  return Error::none;
}

Error pool_backward(ElementType type, const Pool& pool, std::span<const std::byte> gradient_out,
                    std::span<const std::byte> argmax, std::span<std::byte> gradient_in) {
  if (const Error error = check(type, pool, gradient_in.size(), gradient_out.size(), argmax.size());
      error != Error::none)
    return error;
  if (!positions_are_good(pool, argmax)) return Error::bad_position;
  with_bits_of(type, [&]<typename Bits>() {
    gather_all<Bits>(type, pool, gradient_out.data(), argmax.data(), gradient_in.data());
  });
  return Error::none;
}

}  // namespace terrace::compression::gist
