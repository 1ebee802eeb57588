// The update itself: one pass over parameter, gradient and states, once in plain C++ and once for each vector
// unit. All give the same bits. The best that the machine has is chosen at the first call of kernels(); tests
// ask for each by name.
//
// Of a parameter in float 28 bytes cross the memory's bus for each element: parameter and two states in and
// out, the gradient in. With bf16 or fp16 and master weights it is 28, too (the gradient's and the written
// parameter's two bytes in place of four, the master's eight more, less the parameter's eight), and 30 where
// the parameter's line is read before it is written. Nothing is computed twice and nothing is kept between
// passes, so memory's speed is the bound.
//
// None of these functions allocates, locks or keeps state. Threads: any, on pieces that do not overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "liballoc/gpu/optimizer/update/rule.h"

namespace terrace::liballoc::optimizer {

inline constexpr unsigned max_planes = 4;
inline constexpr unsigned number_types = 3;  // terrace_optimizer_type

// Consecutive elements of one parameter. None of its arrays overlaps another.
struct Piece {
  std::size_t elements = 0;
  void* parameter = nullptr;       // aligned to its type; read and written
  const void* gradient = nullptr;  // aligned to its type
  // The rule's states, then the master weights where the parameter is not in float.
  float* planes[max_planes] = {};
};

// The master weights stand for the parameter as long as they round to it. An element that does not is taken
// over into them first: what the program changed, and all of them at the first update, when they are zero.
using Update = void (*)(const Rule& rule, const Piece& piece);

struct Kernels {
  const char* name;  // "scalar", "avx2", "avx512"
  // [parameter's type][gradient's type], the types as terrace_optimizer_type numbers them.
  Update adam[number_types][number_types];
  Update sgd[number_types][number_types];

  Update update(const Rule& rule, unsigned parameter, unsigned gradient) const {
    return (rule.is_sgd ? sgd : adam)[parameter][gradient];
  }
};

const Kernels& scalar_kernels();
const Kernels* avx2_kernels();                  // null where the machine lacks AVX2, FMA or F16C
const Kernels* avx512_kernels();                // null where it lacks these or AVX-512 F, BW, DQ or VL
const Kernels& kernels();                       // the best of these
std::span<const Kernels* const> all_kernels();  // those that the machine can run, the best first

}  // namespace terrace::liballoc::optimizer
