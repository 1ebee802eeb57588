#include <iostream>
#include <nlohmann/json.hpp>

#include "liballoc/wire/protocol.h"
#include "tools/cli/base/exit_code.h"
#include "tools/cli/base/verbs.h"

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

}  // namespace terrace::cli
