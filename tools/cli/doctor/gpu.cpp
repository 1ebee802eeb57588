// GPUs: driver and devices, the emulated one, how much host memory may be pinned, and whether GPUDirect
// Storage works and pays. None of it is needed by `terrace run`, so nothing here counts as missing.
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "tiers/gpu/device.h"
#include "tiers/gpu/direct_probe.h"
#include "tiers/gpu/direct_storage.h"
#include "tiers/gpu/in_context.h"
#include "tools/cli/base/format.h"
#include "tools/cli/doctor/checks.h"

namespace terrace::cli {
namespace {

namespace gpu = tiers::gpu;

constexpr std::uint64_t probe_bytes = std::uint64_t{16} << 20;

// "13.0", or nothing without a driver. The one call that works before the driver is initialised.
std::string driver_version() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return {};
  using Get = int (*)(int*);
  const auto get = reinterpret_cast<Get>(dlsym(driver, "cuDriverGetVersion"));
  int version = 0;
  if (get == nullptr || get(&version) != 0) return "unknown";
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Finding driver_finding() {
  const std::string version = driver_version();
  if (version.empty()) return {"gpu", "cuda_driver", Health::note, "none", "", {{"present", false}}};
  return {
      "gpu", "cuda_driver", Health::note, "for CUDA " + version, "", {{"present", true}, {"cuda", version}}};
}

Finding device_finding(gpu::Device* device, const std::string& reason) {
  if (device == nullptr) {
    return {"gpu", "device_0", Health::note, "cannot be used", reason, {{"usable", false}}};
  }
  const gpu::Memory memory = device->memory();
  return {"gpu",
          "device_0",
          Health::good,
          fmt::format("{}, {}, {} free", device->name(), bytes_text(memory.total_bytes),
                      bytes_text(memory.free_bytes)),
          "",
          {{"usable", true},
           {"name", device->name()},
           {"total_bytes", memory.total_bytes},
           {"free_bytes", memory.free_bytes}}};
}

Finding emulated_finding() {
  gpu::DeviceSpec spec;
  spec.kind = gpu::Kind::emulated;
  spec.capacity_bytes = std::uint64_t{64} << 20;
  std::unique_ptr<gpu::Device> device;
  std::string reason;
  const bool works = gpu::open_device(spec, &device, &reason) == 0;
  return {"gpu",
          "emulated",
          works ? Health::good : Health::degraded,
          works ? "works, as in --gpu emulated:8G" : "cannot be made",
          reason,
          {{"works", works}}};
}

Finding pinned_finding() {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  const bool limited = limit.rlim_cur != RLIM_INFINITY;
  return {"gpu",
          "pinned_memory",
          Health::note,
          limited ? bytes_text(limit.rlim_cur) + " for an emulated device; a CUDA driver pins beyond it"
                  : "not limited",
          "",
          {{"limited", limited}}};
}

Finding direct_note(const std::string& value, const std::string& remedy) {
  return {"gpu", "gpudirect_storage", Health::note, value, remedy, {{"works", false}}};
}

Finding direct_result(const gpu::DirectProbe& probe) {
  const auto rate = [&](std::uint64_t took_ns) {
    return bytes_text(static_cast<std::uint64_t>(static_cast<double>(probe.bytes) * 1e9 /
                                                 static_cast<double>(took_ns))) +
           "/s";
  };
  return {"gpu",
          "gpudirect_storage",
          Health::good,
          fmt::format("works and {}: writes {}, reads {}; through host memory {} and {}",
                      probe.pays() ? "pays" : "does not pay", rate(probe.direct_write_ns),
                      rate(probe.direct_read_ns), rate(probe.bounce_write_ns), rate(probe.bounce_read_ns)),
          "",
          {{"works", true}, {"pays", probe.pays()}}};
}

Finding probe_finding(gpu::DirectStorage& storage, gpu::Device& device, const std::string& pool) {
  const int fd = open(pool.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_DIRECT, 0600);
  if (fd < 0)
    return direct_note("not tried: no file with O_DIRECT in " + pool, "name another directory with --pool");
  gpu::DirectProbe probe;
  std::string reason;
  gpu::PlainBounce bounce(device, fd);
  int error = ftruncate(fd, static_cast<off_t>(probe_bytes)) == 0 ? bounce.open(probe_bytes) : errno;
  if (error != 0) reason = std::strerror(error);
  if (error == 0) {
    error = gpu::in_context(device, [&] {
      return gpu::probe_direct_storage(storage, device, fd, 0, probe_bytes, bounce.path(), &probe, &reason);
    });
  }
  close(fd);
  if (error == 0) return direct_result(probe);
  return direct_note("does not work: " + reason, "pinned host memory is used instead; gdscheck -p says more");
}

Finding direct_finding(gpu::Device* device, const std::string& pool, bool quick) {
  if (device == nullptr) return direct_note("not tried: it needs a GPU", "");
  std::unique_ptr<gpu::DirectStorage> storage;
  std::string reason;
  const auto open_storage = [&] { return gpu::DirectStorage::open(&storage, &reason); };
  if (gpu::in_context(*device, open_storage) != 0) return direct_note("none", reason);
  if (quick) return direct_note("there, not tried (--quick)", "");
  return probe_finding(*storage, *device, pool);
}

}  // namespace

void check_gpu(const std::string& pool, bool quick, Findings* out) {
  std::unique_ptr<gpu::Device> device;
  std::string reason;
  gpu::open_device(gpu::DeviceSpec{}, &device, &reason);
  out->push_back(driver_finding());
  out->push_back(device_finding(device.get(), reason));
  out->push_back(emulated_finding());
  out->push_back(pinned_finding());
  out->push_back(direct_finding(device.get(), pool, quick));
}

}  // namespace terrace::cli
