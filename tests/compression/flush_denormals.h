// What a thread of a framework may have switched on: denormals are read and written as zero. Codecs must not
// care.
#pragma once

#include <xmmintrin.h>

namespace terrace::compression::test {

class FlushDenormals {
 public:
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | flush_to_zero | denormals_are_zero); }
  ~FlushDenormals() { _mm_setcsr(before_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  static constexpr unsigned flush_to_zero = 0x8000, denormals_are_zero = 0x40;
  unsigned before_;
};

}  // namespace terrace::compression::test
