#include "liballoc/paging/mover/nursery.h"

#include <cerrno>
#include <cstdint>

#include "liballoc/base/os.h"
#include "liballoc/heap/space/address_space.h"

namespace terrace::liballoc {

int Nursery::open() {
  // Two runs of address space give one aligned run.
  auto* const area = static_cast<std::byte*>(os::map_anonymous(2 * run_bytes, PROT_READ | PROT_WRITE));
  if (area == nullptr) return ENOMEM;
  run_ = area + (run_bytes - reinterpret_cast<std::uintptr_t>(area) % run_bytes) % run_bytes;
  unlock();  // after mlockall(MCL_FUTURE) it was born locked
  os::advise(run_, run_bytes, MADV_HUGEPAGE);
  os::advise(run_, run_bytes, MADV_DONTFORK);
  return 0;
}

int Nursery::populate() const {
  const int error = os::advise(run_, run_bytes, os::advice_populate_write);
  if (error != EINVAL) return error;
  // Before Linux 5.14. The kernel serves these faults.
  auto* const at = static_cast<volatile std::byte*>(run_);
  for (std::size_t offset = 0; offset < run_bytes; offset += os::page_bytes) at[offset] = std::byte{0};
  return 0;
}

void Nursery::unlock() const {
  if (run_ != nullptr) os::unlock(run_, run_bytes);
}

}  // namespace terrace::liballoc
