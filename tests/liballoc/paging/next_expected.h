// What reading ahead expects next, whatever has become of it since it was asked for.
#pragma once

#include "liballoc/paging/policy/read_ahead.h"

namespace terrace::liballoc::test {

inline std::uint32_t next_expected(ReadAhead& ahead) {
  return ahead.pop([](std::uint32_t, std::uint32_t) { return true; });
}

}  // namespace terrace::liballoc::test
