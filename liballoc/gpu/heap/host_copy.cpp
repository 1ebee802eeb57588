#include "liballoc/gpu/heap/host_copy.h"

#include <sys/mman.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cerrno>
#include <new>

namespace terrace::liballoc::gpu {
namespace {

constexpr std::uint64_t page = 4096;

std::uint64_t whole_pages(std::uint64_t bytes) { return (bytes + page - 1) / page * page; }

}  // namespace

int HostCopy::create(tiers::gpu::Device& device, std::uint64_t bytes, std::shared_ptr<HostCopy>* out) {
  std::shared_ptr<HostCopy> copy(new (std::nothrow) HostCopy(device, bytes));
  if (copy == nullptr) return ENOMEM;
  void* data = mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return ENOMEM;
  copy->data_ = static_cast<std::byte*>(data);
  if (const int error = device.create_event(&copy->event_); error != 0) return error;
  copy->pinned_ = device.pin(data, whole_pages(bytes)) == 0;
  *out = std::move(copy);
  return 0;
}

HostCopy::~HostCopy() {
  if (pinned_) device_.unpin(data_);
  if (data_ != nullptr) munmap(data_, whole_pages(bytes_));
  if (event_ != nullptr) device_.destroy_event(event_);
}

int HostCopy::queue_out(tiers::gpu::Stream stream, const void* from) {
  const auto sum = [](void* self) {
    auto* copy = static_cast<HostCopy*>(self);
    copy->checksum_ = XXH3_64bits(copy->data_, copy->bytes_);
  };
  int error = device_.copy(stream, data_, from, bytes_, tiers::gpu::Way::to_host);
  if (error != 0) return error;
  error = device_.call_host(stream, sum, this);
  const int recorded = device_.record(event_, stream);
  return error != 0 ? error : recorded;
}

int HostCopy::queue_back(tiers::gpu::Stream stream, void* to) {
  const int error = device_.copy(stream, to, data_, bytes_, tiers::gpu::Way::to_device);
  return error != 0 ? error : device_.record(event_, stream);
}

bool HostCopy::intact() const { return XXH3_64bits(data_, bytes_) == checksum_; }

}  // namespace terrace::liballoc::gpu
