#include "liballoc/gpu/offload/drive/direct_path.h"

#include <cerrno>
#include <cstring>

#include "tiers/gpu/in_context.h"

namespace terrace::liballoc::offload {
namespace {

using tiers::gpu::DirectProbe;
using tiers::gpu::in_context;

std::string milliseconds(std::uint64_t ns) { return std::to_string((ns + 500'000) / 1'000'000) + " ms"; }

std::string slower(const DirectProbe& probe) {
  return "a probe's way to the drive and back took " +
         milliseconds(probe.direct_write_ns + probe.direct_read_ns) + ", through host memory " +
         milliseconds(probe.bounce_write_ns + probe.bounce_read_ns);
}

}  // namespace

DirectPath::~DirectPath() {
  if (file_ != nullptr) storage_->remove_file(file_);
}

int DirectPath::open(tiers::gpu::Device* device, Drive* drive, std::string* reason) {
  device_ = device;
  drive_ = drive;
  if (!drive->bypasses_page_cache()) {
    *reason = "the drive's file system refuses O_DIRECT";
    return ENOTSUP;
  }
  const auto open_storage = [&] { return tiers::gpu::DirectStorage::open(&storage_, reason); };
  return in_context(*device, open_storage);
}

int DirectPath::prove(std::string* reason) {
  tiers::Extent extent{};
  int error = drive_->reserve(probe_bytes, &extent);
  if (error != 0) {
    *reason = std::string("the drive has no room for a probe: ") + ::strerrordesc_np(error);
    return error;
  }
  error = in_context(*device_, [&] { return probe(extent, reason); });
  drive_->release(extent);
  if (error == 0) error = in_context(*device_, [&] { return storage_->add_file(drive_->fd(), &file_); });
  if (error != 0 && reason->empty()) *reason = storage_->error_text();
  return error;
}

int DirectPath::probe(const tiers::Extent& extent, std::string* reason) {
  tiers::gpu::PlainBounce bounce(*device_, drive_->fd());
  if (const int error = bounce.open(extent.bytes); error != 0) {
    *reason = std::string("no host memory to compare with: ") + ::strerrordesc_np(error);
    return error;
  }
  DirectProbe probe;
  const int error = probe_direct_storage(*storage_, *device_, drive_->fd(), extent.offset, extent.bytes,
                                         bounce.path(), &probe, reason);
  if (error != 0 || probe.pays()) return error;
  *reason = slower(probe);
  return ENOTSUP;
}

int DirectPath::write(const std::byte* from, const tiers::Extent& extent) {
  return in_context(*device_, [&] { return storage_->write(file_, from, extent.bytes, extent.offset); });
}

int DirectPath::read(std::byte* to, const tiers::Extent& extent) {
  return in_context(*device_, [&] { return storage_->read(file_, to, extent.bytes, extent.offset); });
}

}  // namespace terrace::liballoc::offload
