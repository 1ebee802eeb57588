#include "tools/cli/base/exit_code.h"

#include <cstdio>

namespace terrace::cli {

int complain(int exit_code, const std::string& message) {
  std::fprintf(stderr, "terrace: %s\n", message.c_str());
  return exit_code;
}

}  // namespace terrace::cli
