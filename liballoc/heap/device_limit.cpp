#include "liballoc/heap/device_limit.h"

#include "liballoc/base/message.h"

namespace terrace::liballoc {

bool DeviceLimit::has_room(std::size_t more_bytes) const {
  const std::uint64_t live = std::uint64_t{blocks_.space().live_granules()} * granule_bytes;
  return !is_set() || (live <= options_.device_bytes && more_bytes <= options_.device_bytes - live);
}

// Once: a framework that catches the error and tries again would fill the screen.
void DeviceLimit::report_full(std::size_t bytes) {
  {
    const LockGuard guard(blocks_.lock());
    if (is_reported_) return;
    is_reported_ = true;
  }
  Message m(Severity::warning);
  m << "the emulated GPU of ";
  m.bytes(options_.device_bytes) << " is full: a request of ";
  m.bytes(bytes)
      << " is refused with ENOMEM, as others may be; offload more of the job (--offload-min), or give "
         "the GPU more memory (--gpu)";
}

}  // namespace terrace::liballoc
