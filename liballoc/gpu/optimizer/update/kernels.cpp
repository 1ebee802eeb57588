// Which kernels the machine can run. The checks come first, the vector sets' code after: these lie in files
// compiled for instructions that may be missing here. Each set's machines can run those behind it, too.
#include "liballoc/gpu/optimizer/update/kernels.h"

#include <cpuid.h>

#include "liballoc/gpu/optimizer/update/sets.h"

namespace terrace::liballoc::optimizer {
namespace {

constexpr const Kernels* sets[] = {&avx512::table, &avx2::table, &scalar::table};

// clang 14 has no name for it.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

bool has_avx2() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

}  // namespace

const Kernels& scalar_kernels() { return scalar::table; }
const Kernels* avx2_kernels() { return has_avx2() ? &avx2::table : nullptr; }
const Kernels* avx512_kernels() { return has_avx512() ? &avx512::table : nullptr; }

std::span<const Kernels* const> all_kernels() {
  static const std::size_t first = has_avx512() ? 0 : has_avx2() ? 1 : 2;
  return std::span<const Kernels* const>(sets).subspan(first);
}

const Kernels& kernels() { return *all_kernels().front(); }

}  // namespace terrace::liballoc::optimizer
