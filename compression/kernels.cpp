// Which kernels the machine can run. The checks come first, the vector sets' code after: these lie in files
// compiled for instructions that may be missing here. Each set's
// machines can run those behind it, too, so that what can be run is the end of one list.
#include "compression/kernels.h"

#include "compression/kernels_vector.h"

namespace terrace::compression {
namespace {

constexpr const Kernels* sets[] = {&avx512::table, &avx512::table_v4, &avx2::table, &scalar::table};

bool has_avx2() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
}

bool has_avx512_v4() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

bool has_avx512() { return has_avx512_v4() && __builtin_cpu_supports("avx512vbmi2"); }

}  // namespace

const Kernels& scalar_kernels() { return scalar::table; }
const Kernels* avx2_kernels() { return has_avx2() ? &avx2::table : nullptr; }
const Kernels* avx512_v4_kernels() { return has_avx512_v4() ? &avx512::table_v4 : nullptr; }
const Kernels* avx512_kernels() { return has_avx512() ? &avx512::table : nullptr; }

std::span<const Kernels* const> all_kernels() {
  const std::span<const Kernels* const> all = sets;
  return all.subspan(has_avx512() ? 0 : has_avx512_v4() ? 1 : has_avx2() ? 2 : 3);
}

const Kernels& kernels() { return *all_kernels().front(); }

}  // namespace terrace::compression
