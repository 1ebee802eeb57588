// Which kernels the machine can run. The checks come first, the vector sets' code after: these lie in files
// compiled for instructions that may be missing here. Each set's
// machines can run those behind it, too, so that what can be run is the end of one list.
#include "compression/kernels/kernels.h"

#include <cpuid.h>

#include "compression/kernels/vector.h"

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

// Zen 5 and what AMD makes after it. Measured on a Zen 5; what was tuned on others stays as it is.
bool is_zen5_or_later() {
  __builtin_cpu_init();
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__builtin_cpu_is("amd") || __get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return false;
  const unsigned base = eax >> 8 & 0xf, extended = eax >> 20 & 0xff;
  return base == 0xf && base + extended >= 0x1a;
}

const bool in_order = is_zen5_or_later();  // asked once: a virtual machine is left for each cpuid

}  // namespace

bool fetches_in_order() { return in_order; }

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
