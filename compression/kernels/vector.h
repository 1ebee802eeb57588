// The sets of kernels. The vector ones are to be reached only behind the CPUID checks of kernels.cpp. Each
// lies in files of its own that are compiled for its instructions; these files call no inline function of a
// common header, for the linker keeps one copy of such a function for the whole program and might keep the
// one that a machine without the instructions cannot run.
#pragma once

#include "compression/kernels/kernels.h"

namespace terrace::compression {

namespace scalar {
extern const Kernels table;
}

namespace avx2 {
extern const Kernels table;
GroupCode group_code(ElementType type, const std::byte* values, std::size_t n);
std::size_t squeeze(ElementType type, GroupCode code, const std::byte* values, std::size_t n, std::byte* out);
void unsqueeze(ElementType type, GroupCode code, const std::byte* in, std::size_t n, std::byte* values);
}  // namespace avx2

namespace avx512 {
extern const Kernels table;     // with VBMI2
extern const Kernels table_v4;  // without
GroupCode group_code(ElementType type, const std::byte* values, std::size_t n);
std::size_t squeeze(ElementType type, GroupCode code, const std::byte* values, std::size_t n, std::byte* out);
void unsqueeze(ElementType type, GroupCode code, const std::byte* in, std::size_t n, std::byte* values);
}  // namespace avx512

}  // namespace terrace::compression
