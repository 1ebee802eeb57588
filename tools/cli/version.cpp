#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "liballoc/wire/protocol.h"
#include "tools/cli/exit_code.h"
#include "tools/cli/verbs.h"

namespace terrace::cli {

int version(bool as_json) {
  if (as_json) {
    std::cout << nlohmann::json{{"format", "terrace-version"},
                                {"version", 1},
                                {"terrace", TERRACE_VERSION},
                                {"protocol", wire::protocol_version}}
                     .dump()
              << '\n';
  } else {
    std::cout << "terrace " TERRACE_VERSION " (protocol " << wire::protocol_version << ")\n";
  }
  return exit_ok;
}

int complain(int exit_code, const std::string& message) {
  std::fprintf(stderr, "terrace: %s\n", message.c_str());
  return exit_code;
}

}  // namespace terrace::cli
