// The event clock on programs that bytes spell: loops within loops, events left out, nonsense. Whatever it
// is, what the clock says must fit together (tests/liballoc/lifetimes/invariants.h).
#include <cstddef>
#include <cstdint>

#include "tests/liballoc/lifetimes/invariants.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  terrace::liballoc::test::run_spelled_program(data, size);
  return 0;
}
