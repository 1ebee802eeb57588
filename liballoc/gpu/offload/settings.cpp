#include "liballoc/gpu/offload/settings.h"

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <vector>

#include "liballoc/gpu/offload/memory/host_memory.h"
#include "liballoc/gpu/offload/memory/slab.h"
#include "liballoc/gpu/offload/plan/plan_maker.h"

namespace terrace::liballoc::offload {
namespace {

std::string in_bytes(std::uint64_t bytes) { return std::to_string(bytes) + " bytes"; }

int read_device(const char* text, Settings* out, std::string* reason) {
  if (text == nullptr) {
    *reason = "device is not set: say cpu, cuda, cuda:1 or emulated:8G";
    return EINVAL;
  }
  out->device_text = text;
  if (std::string_view(text) == "cpu") return 0;
  tiers::gpu::DeviceSpec spec;
  if (const int error = tiers::gpu::parse_device(text, &spec, reason); error != 0) return error;
  out->device = spec;
  return 0;
}

int read_compress(const char* text, Settings* out, std::string* reason) {
  const std::string_view word = text == nullptr ? "off" : text;
  if (word == "off") return 0;
  if (word == "auto") {
    out->compress = Compress::automatic;
    return 0;
  }
  const auto codec = compression::codec_named(word);
  if (!codec || *codec == compression::Codec::raw || *codec > compression::Codec::csr8) {
    *reason = "compress is '" + std::string(word) + "': say auto, off, zvc, zvc_exp, rle or csr8";
    if (codec && *codec > compression::Codec::csr8)
      *reason += " (" + std::string(word) + " has no kernels for GPUs; zvc_exp comes closest to its ratio)";
    return EINVAL;
  }
  out->compress = Compress::forced;
  out->codec = *codec;
  return 0;
}

int read_checksums(const char* text, Settings* out, std::string* reason) {
  const std::string_view word = text == nullptr ? "drive" : text;
  out->sums_everything = word == "all";
  if (word == "drive" || word == "all") return 0;
  *reason = "checksums is '" + std::string(word) + "': say drive (what is written to the drive) or all";
  return EINVAL;
}

int read_policy(const char* text, Settings* out, std::string* reason) {
  const std::string_view word = text == nullptr ? "heuristic" : text;
  const std::vector<std::string_view>& known = plan_policies();
  if (std::find(known.begin(), known.end(), word) != known.end()) {
    out->policy = word;
    return 0;
  }
  *reason = "policy is '" + std::string(word) + "': say ";
  for (std::size_t i = 0; i < known.size(); ++i)
    *reason += std::string(i == 0 ? "" : i + 1 == known.size() ? " or " : ", ") + std::string(known[i]);
  return EINVAL;
}

int read_trial(const char* text, Settings* out, std::string* reason) {
  const std::string_view word = text == nullptr ? "on" : text;
  out->judges_plans = word == "on";
  if (word == "on" || word == "off") return 0;
  *reason = "trial is '" + std::string(word) + "': say on (a plan that is slower is laid aside) or off";
  return EINVAL;
}

int read_amounts(const terrace_offload_config& config, Settings* out, std::string* reason) {
  if (config.dram_bytes < Settings::least_dram_bytes) {
    *reason =
        "dram_bytes is " + in_bytes(config.dram_bytes) + ": the engine needs at least 16 MiB of host memory";
    return EINVAL;
  }
  if (config.read_ahead_bytes > config.dram_bytes) {
    *reason = "read_ahead_bytes is " + in_bytes(config.read_ahead_bytes) +
              ", more than dram_bytes, of which it is a part";
    return EINVAL;
  }
  const std::uint64_t limit = host_memory_limit_bytes();
  if (config.dram_bytes > limit) {
    *reason = "dram_bytes is " + in_bytes(config.dram_bytes) + ", more than the " + in_bytes(limit) +
              " of host memory that the machine or this job's cgroup has";
    return EINVAL;
  }
  out->dram_bytes = config.dram_bytes / Slab::unit_bytes * Slab::unit_bytes;
  out->nvme_bytes = config.nvme_bytes;
  out->staging_bytes = config.staging_bytes;
  out->read_ahead_bytes = config.read_ahead_bytes != 0 ? config.read_ahead_bytes : config.dram_bytes / 4;
  out->writes_per_day_bytes = config.writes_per_day_bytes;
  out->writes_total_bytes = config.writes_total_bytes;
  return 0;
}

}  // namespace

int read_settings(const terrace_offload_config& config, Settings* out, std::string* reason) {
  if (config.size < sizeof(config)) {
    *reason = "the configuration's size is " + in_bytes(config.size) + ": this library's has " +
              in_bytes(sizeof(config));
    return EINVAL;
  }
  Settings settings;
  settings.nvme_directory = config.nvme_directory != nullptr ? config.nvme_directory : "/var/tmp";
  settings.names_directory = config.nvme_directory != nullptr;
  settings.fault = config.fault != nullptr ? config.fault : "";
  if (const int error = read_device(config.device, &settings, reason); error != 0) return error;
  if (const int error = read_compress(config.compress, &settings, reason); error != 0) return error;
  if (const int error = read_checksums(config.checksums, &settings, reason); error != 0) return error;
  if (const int error = read_policy(config.policy, &settings, reason); error != 0) return error;
  if (const int error = read_trial(config.trial, &settings, reason); error != 0) return error;
  if (const int error = read_amounts(config, &settings, reason); error != 0) return error;
  if (const int error = liballoc::gpu::read_session_options(&settings.session, reason); error != 0)
    return error;
  *out = settings;
  return 0;
}

}  // namespace terrace::liballoc::offload
