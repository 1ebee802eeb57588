// Numbers in texts that are not trusted: the kernel's files, and an environment variable. The texts end with
// a zero; nothing is read behind it.
#pragma once

#include <cstdint>

namespace terrace::liballoc {

// The number at the start of `text`; false if there is none ("max") or it is too large.
bool parse_number(const char* text, std::uint64_t* value);
// The value after "key " at the beginning of a line of `text`; false if there is no such line.
bool find_field(const char* text, const char* key, std::uint64_t* value);
// The bytes of a line "key:   number kB" of `text`, as /proc/meminfo and /proc/self/status have them; false
// if there is no such line.
bool find_kib(const char* text, const char* key, std::uint64_t* bytes);

}  // namespace terrace::liballoc
