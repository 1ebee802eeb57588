#include "compression/kernels.h"

namespace terrace::compression {

std::span<const Kernels* const> all_kernels() {
  static const Kernels* const sets[] = {&scalar_kernels()};
  return sets;
}

const Kernels& kernels() { return *all_kernels().front(); }

}  // namespace terrace::compression
