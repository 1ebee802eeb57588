// GPUDirect Storage between the staging and the drive's file (tiers/gpu/direct_storage.h): the way past host
// memory, if it works here and is the faster one.
//
// A transfer blocks the calling thread, which has the device's context meanwhile: cuFile works in the one
// that is current. The staging is not registered with cuFile, neither is the probe's memory: what is timed is
// what is used.
//
// Any thread may transfer; open() and prove() come first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "liballoc/gpu/offload/drive/drive.h"
#include "tiers/gpu/device.h"
#include "tiers/gpu/direct_probe.h"
#include "tiers/gpu/direct_storage.h"
#include "tiers/tier.h"

namespace terrace::liballoc::offload {

class DirectPath {
 public:
  static constexpr std::uint64_t probe_bytes = std::uint64_t{4} << 20;
  static constexpr std::uint64_t probe_writes_bytes = tiers::gpu::direct_probe_writes(probe_bytes);

  DirectPath() = default;
  DirectPath(const DirectPath&) = delete;
  DirectPath& operator=(const DirectPath&) = delete;
  ~DirectPath();

  // Whether it is there. Both objects stay alive. 0, or errno with *reason.
  int open(tiers::gpu::Device* device, Drive* drive, std::string* reason);
  // Transfers probe_bytes to and from a place on the drive, this way and through pinned host memory, and
  // writes probe_writes_bytes in all. 0, or errno with *reason: ENOTSUP also where it works and is not the
  // faster way.
  int prove(std::string* reason);

  // The whole extent, from and to device memory. 0 or EIO.
  int write(const std::byte* from, const tiers::Extent& extent);
  int read(std::byte* to, const tiers::Extent& extent);

 private:
  int probe(const tiers::Extent& extent, std::string* reason);

  tiers::gpu::Device* device_ = nullptr;
  Drive* drive_ = nullptr;
  std::unique_ptr<tiers::gpu::DirectStorage> storage_;
  tiers::gpu::DirectStorage::File file_ = nullptr;
};

}  // namespace terrace::liballoc::offload
