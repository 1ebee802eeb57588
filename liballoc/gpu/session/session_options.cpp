#include "liballoc/gpu/session/session_options.h"

#include <cerrno>  // program_invocation_short_name
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "liballoc/base/kill_switch.h"
#include "liballoc/wire/protocol.h"
#include "liballoc/wire/size.h"

namespace terrace::liballoc::gpu {
namespace {

std::string variable(const char* name) {
  const char* value = ::secure_getenv(name);
  return value != nullptr ? value : "";
}

int refuse_variable(const char* name, const std::string& value, const std::string& accepted,
                    std::string* reason) {
  *reason = std::string(name) + " is '" + value + "': say " + accepted;
  return EINVAL;
}

int read_budget(std::uint64_t* out, std::string* reason) {
  const std::string text = variable("TERRACE_DRAM");
  if (text.empty()) return 0;
  std::uint64_t bytes = 0;
  if (wire::read_size(text.c_str(), &bytes) != 0 || bytes < wire::least_budget_bytes)
    return refuse_variable("TERRACE_DRAM", text, "a size of 32 MiB or more, as 16G", reason);
  *out = bytes;
  return 0;
}

int read_weight(std::uint16_t* out, std::string* reason) {
  const std::string text = variable("TERRACE_WEIGHT");
  if (text.empty()) return 0;
  std::uint16_t weight = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), weight);
  const bool is_whole = error == std::errc() && end == text.data() + text.size();
  if (!is_whole || weight < 1 || weight > wire::most_weight)
    return refuse_variable("TERRACE_WEIGHT", text, "a whole number from 1 to 1000", reason);
  *out = weight;
  return 0;
}

}  // namespace

int read_session_options(SessionOptions* out, std::string* reason) {
  if (switch_of(::secure_getenv("TERRACE_DISABLE")) == Switch::on) return 0;
  SessionOptions options;
  options.socket = variable("TERRACE_SOCKET");
  if (options.socket.empty()) return 0;
  options.job = variable("TERRACE_JOB");
  if (options.job.empty()) options.job = program_invocation_short_name;
  options.daemon = variable("TERRACE_DAEMON");
  if (const int error = read_budget(&options.dram_bytes, reason); error != 0) return error;
  if (const int error = read_weight(&options.weight, reason); error != 0) return error;
  *out = options;
  return 0;
}

}  // namespace terrace::liballoc::gpu
