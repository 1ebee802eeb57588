// terraced.toml as an attacker or a tired administrator would write it: parsing ends with a value or an error
// that names the file, and what was accepted is written and read back the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "daemon/settings/config.h"

using namespace terrace::daemon;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const ConfigResult result = parse_config(text, "fuzz.toml", Config{});
  if (!result.error.empty()) {
    if (!result.error.starts_with("fuzz.toml:")) std::abort();
    return 0;
  }
  const std::string written = to_toml(result.config);
  const ConfigResult back = parse_config(written, "back.toml", Config{});
  if (!back.error.empty() || to_toml(back.config) != written) std::abort();
  return 0;
}
