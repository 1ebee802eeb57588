// The tables of the sets, each in a file compiled for its instructions. Plain constants: to name one runs
// none of its code.
#pragma once

#include "liballoc/gpu/optimizer/update/kernels.h"

namespace terrace::liballoc::optimizer {
namespace scalar {
extern const Kernels table;
}
namespace avx2 {
extern const Kernels table;
}
namespace avx512 {
extern const Kernels table;
}
}  // namespace terrace::liballoc::optimizer
