// System calls of the library under test go through the test first: the linker's --wrap=syscall sends them
// here. For one file of a program.
#pragma once

#include <cstdarg>

extern "C" long __real_syscall(long number, ...);

namespace terrace::liballoc::test {

// What becomes of a system call. The test defines it; any thread may call it.
long on_system_call(long number, const long (&argument)[6]);

inline long real_system_call(long number, const long (&argument)[6]) {
  return __real_syscall(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
}

}  // namespace terrace::liballoc::test

// Takes six arguments whatever the caller gave, as syscall(2) itself does.
extern "C" __attribute__((no_sanitize("address"))) long __wrap_syscall(long number, ...) {
  long argument[6];
  va_list arguments;
  va_start(arguments, number);
  for (long& one : argument) one = va_arg(arguments, long);
  va_end(arguments);
  return terrace::liballoc::test::on_system_call(number, argument);
}
