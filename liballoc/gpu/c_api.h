// What the C APIs of this folder have in common: text and structures that go to the caller's memory.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

namespace terrace::liballoc {

// As much of it as fits, with an end; nothing where there is no room for one.
inline void tell_reason(const std::string& reason, char* to, std::size_t bytes) {
  if (to == nullptr || bytes == 0) return;
  const std::size_t length = std::min(reason.size(), bytes - 1);
  std::memcpy(to, reason.data(), length);
  to[length] = '\0';
}

// As much of what `from` is asked for as the caller's structure, perhaps an older or a newer one, has room
// for. 0, or -EINVAL: there is nobody to ask, or no structure.
template <typename Part, typename Statistics>
int give_statistics(Part* from, Statistics* out) {
  if (from == nullptr || out == nullptr || out->size < sizeof(out->size)) return -EINVAL;
  Statistics now = from->statistics();
  now.size = std::min(out->size, sizeof(now));
  std::memcpy(out, &now, now.size);
  return 0;
}

}  // namespace terrace::liballoc
