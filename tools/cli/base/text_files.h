// Files that the user names, of any size up to a bound: read whole or from standard input, unpacked, and
// replaced in one step. What is small and the kernel's is read by files.h.
#pragma once

#include <string>

#include "liballoc/wire/result.h"

namespace terrace::cli {

// A Result with the exit code that the failure means.
template <class T>
struct Loaded {
  Result<T> result;
  int exit_code = 0;
};

// The file, or standard input for "-", unpacked when it is gzip. At most 512 MiB, unpacked 2 GiB.
Loaded<std::string> load_text(const std::string& path);

// Replaces `path` by `content` in one step, so that a reader never finds half of it; gzip where it ends in
// ".gz". An empty text, or why not.
std::string write_whole(const std::string& path, const std::string& content);

}  // namespace terrace::cli
