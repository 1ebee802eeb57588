// All sets of kernels side by side: the same frame from the same content, the same from a damaged one, and,
// one level down, the same from each kernel for arguments that no frame may ever bring, but their contracts
// allow.
//
// The first byte chooses; the rest is content, damage, or a mask, a group code and values.
#include <bit>
#include <cstdio>
#include <cstdlib>

#include "contents.h"
#include "tests/compression/differential.h"

using namespace terrace::compression;
using test::Bytes;
using test::Input;
using test::Walled;

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

void frames(Input& input) {
  static test::Differential differential;
  const FrameOptions options{static_cast<Codec>(input.byte() % codec_count),
                             static_cast<ElementType>(input.byte() % element_type_count), 4};
  std::uint8_t damage = input.byte() % 16;
  std::uint32_t places[16] = {};
  for (std::uint8_t i = 0; i < damage; ++i) places[i] = input.value<std::uint32_t>();
  const Bytes content = test::content_from(input, options.element);
  Bytes frame = test::compressed(content, options, scalar_kernels()).frame;
  for (const Kernels* with : all_kernels())
    require(test::compressed(content, options, *with).frame == frame,
            "sets of kernels write different frames");
  for (std::uint8_t i = 0; i < damage; ++i)
    frame[places[i] / 256 % frame.size()] = static_cast<std::byte>(places[i] % 256);
  test::repair_blocks(frame);
  test::repair_table(frame);
  test::repair_header(frame);
  const std::string fault = differential.decode(frame).fault;
  require(fault.empty(), fault.c_str());
}

std::vector<std::uint64_t> mask_from(Input& input, std::size_t elements) {
  std::vector<std::uint64_t> mask((elements + 63) / 64);
  const std::uint8_t density = input.byte();
  for (std::uint64_t& word : mask) {
    const auto bits = input.value<std::uint64_t>();
    word = density % 3 == 0 ? bits : density % 3 == 1 ? bits & std::rotl(bits, 7) : bits | std::rotl(bits, 7);
  }
  if (elements % 64 != 0) mask.back() &= (std::uint64_t{1} << elements % 64) - 1;
  return mask;
}

// Values in memory that ends with them, decoded into memory that ends with the elements.
void expand(Input& input) {
  const unsigned log2 = input.byte() % 4;
  const std::size_t elements = input.value<std::uint16_t>() % 700;
  const auto mask = mask_from(input, elements);
  std::size_t count = 0;
  for (const std::uint64_t word : mask) count += static_cast<std::size_t>(std::popcount(word));
  const Walled values(count << log2);
  for (std::byte& b : values.span()) b = static_cast<std::byte>(input.byte());
  const Walled expected(elements << log2);
  scalar_kernels().expand[log2](mask.data(), elements, values.data(), expected.data());
  for (const Kernels* with : all_kernels()) {
    const Walled result(elements << log2, std::byte{0x77});
    with->expand[log2](mask.data(), elements, values.data(), result.data());
    require(result.equals(expected.span()) && result.holds(), "sets of kernels expand differently");
  }
}

GroupCode code_from(Input& input, const ElementShape& shape) {
  GroupCode code;
  code.base = static_cast<std::uint16_t>(input.value<std::uint16_t>() & ((1U << shape.exponent_bits) - 1));
  code.width = static_cast<std::uint8_t>(input.byte() % (shape.exponent_bits + 1));
  code.sign = input.byte() % 2;
  code.trail = static_cast<std::uint8_t>(input.byte() % (shape.mantissa_bits + 1));
  return code;
}

void unsqueeze(Input& input) {
  const auto type = static_cast<ElementType>(input.byte() % element_type_count);
  const std::size_t n = 1 + input.value<std::uint16_t>() % 1024, bytes = n * width_of(type);
  const GroupCode code = code_from(input, shape_of(type));
  const Walled in((n * code.bits(shape_of(type)) + 7) / 8);
  for (std::byte& b : in.span()) b = static_cast<std::byte>(input.byte());
  const Walled expected(bytes + write_slack);
  scalar_kernels().unsqueeze(type, code, in.data(), n, expected.data());
  for (const Kernels* with : all_kernels()) {
    const Walled result(bytes + write_slack, std::byte{0x77});
    with->unsqueeze(type, code, in.data(), n, result.data());
    require(std::memcmp(result.data(), expected.data(), bytes) == 0, "sets of kernels unsqueeze differently");
    require(result.holds(), "unsqueeze wrote before its destination");
  }
}

void squeeze(Input& input) {
  const auto type = static_cast<ElementType>(input.byte() % element_type_count);
  Bytes content = test::content_from(input, type);
  const std::size_t n = std::min<std::size_t>(content.size() / width_of(type), 1024);
  if (n == 0) return;
  const Walled values(std::span(content).first(n * width_of(type)));
  const GroupCode code = scalar_kernels().group_code(type, values.data(), n);
  const Walled expected(values.size() + write_slack);
  const std::size_t bytes = scalar_kernels().squeeze(type, code, values.data(), n, expected.data());
  for (const Kernels* with : all_kernels()) {
    require(with->group_code(type, values.data(), n) == code, "sets of kernels find different codes");
    const Walled result(values.size() + write_slack, std::byte{0x77}), back(values.size() + write_slack);
    require(with->squeeze(type, code, values.data(), n, result.data()) == bytes && result.holds(),
            "sets of kernels squeeze to different sizes");
    require(std::memcmp(result.data(), expected.data(), bytes) == 0, "sets of kernels squeeze differently");
    const Walled in(result.span().first(bytes));
    with->unsqueeze(type, code, in.data(), n, back.data());
    require(std::memcmp(back.data(), values.data(), values.size()) == 0, "squeezed values do not come back");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  switch (input.byte() % 5) {
    case 0:
      expand(input);
      break;
    case 1:
      unsqueeze(input);
      break;
    case 2:
      squeeze(input);
      break;
    default:
      frames(input);
  }
  return 0;
}
