// What terrace_offload_open() was asked for, checked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compression/codec.h"
#include "liballoc/gpu/session/session_options.h"
#include "liballoc/gpu/terrace_gpu.h"
#include "tiers/gpu/device.h"

namespace terrace::liballoc::offload {

enum class Compress : std::uint8_t { off, automatic, forced };

struct Settings {
  static constexpr std::uint64_t least_dram_bytes = std::uint64_t{16} << 20;

  std::optional<tiers::gpu::DeviceSpec> device;  // none: CPU tensors
  std::string device_text;                       // as it was asked for
  std::uint64_t dram_bytes = 0;                  // a multiple of 4096
  std::uint64_t nvme_bytes = 0;
  std::string nvme_directory;
  bool names_directory = false;  // else a daemon's pool is preferred
  Compress compress = Compress::off;
  compression::Codec codec = compression::Codec::raw;  // forced
  std::uint64_t read_ahead_bytes = 0;
  std::uint64_t staging_bytes = 0;  // 0: by the device's memory (codec/staging.h)
  std::uint64_t writes_per_day_bytes = 0;
  std::uint64_t writes_total_bytes = 0;
  bool sums_everything = false;      // not only what goes to the drive (proofs.h)
  std::string policy = "heuristic";  // who decides what moves when (plan/plan_maker.h has the names)
  bool judges_plans = true;          // a plan that is slower than the heuristic is laid aside
  std::string fault;
  liballoc::gpu::SessionOptions session;  // the daemon to join, if there is one

  // Whether the drive may be a pool of the daemon's. Who names a directory has his file there, and an
  // endurance budget of the user's own is counted in the user's record.
  bool wants_granted_pool() const {
    return nvme_bytes != 0 && !names_directory && writes_per_day_bytes == 0 && writes_total_bytes == 0;
  }
};

// 0, or EINVAL with *reason naming the field, what it says and what is accepted.
int read_settings(const terrace_offload_config& config, Settings* out, std::string* reason);

}  // namespace terrace::liballoc::offload
