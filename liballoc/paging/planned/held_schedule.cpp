#include "liballoc/paging/planned/held_schedule.h"

#include <fcntl.h>

#include <algorithm>
#include <new>

#include "liballoc/base/os.h"

namespace terrace::liballoc {
namespace {

constexpr int seals_wanted = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;

std::size_t aligned(std::size_t bytes) { return (bytes + 7) / 8 * 8; }

}  // namespace

const char* HeldSchedule::open(const PlanOffer& offer) noexcept {
  close();
  if (offer.image_bytes < sizeof(wire::ImageHeader)) return "it is too short to be a schedule";
  if (offer.image_bytes > most_bytes) return "it is longer than any schedule of a job";
  image_bytes_ = offer.image_bytes;
  budget_bytes_ = offer.budget_bytes;
  const char* why = map(offer.fd);
  if (why[0] == '\0') why = check();
  if (why[0] == '\0' && view_.header->period_hash != offer.period_hash) why = "it is for another period";
  if (why[0] == '\0') why = prepare();
  if (why[0] != '\0') close();
  return why;
}

void HeldSchedule::close() noexcept {
  if (image_ != nullptr) os::unmap(image_, image_bytes_);
  if (memory_ != nullptr) os::unmap(memory_, memory_bytes_);
  *this = HeldSchedule();
}

const char* HeldSchedule::map(int fd) noexcept {
  const long seals = syscall(SYS_fcntl, fd, F_GET_SEALS);
  if (seals < 0 || (seals & seals_wanted) != seals_wanted)
    return "it is not sealed, so that it could change while it is used";
  const long size = syscall(SYS_lseek, fd, 0L, SEEK_END);
  if (size < 0 || static_cast<std::size_t>(size) < image_bytes_) return "it is shorter than was said";
  const long at = syscall(SYS_mmap, nullptr, image_bytes_, PROT_READ, MAP_SHARED, fd, 0L);
  if (at == -1) return "no address space for it";
  image_ = reinterpret_cast<std::byte*>(at);  // NOLINT: the kernel's number
  return "";
}

const char* HeldSchedule::check() noexcept {
  const wire::OpenedSchedule opened = wire::open_schedule({image_, image_bytes_});
  if (!opened) return wire::text_of(opened.fault);
  view_ = opened.view;
  if (view_.header->clock != wire::Clock::allocations) return "its clock does not count allocations";
  if (view_.entries.size() > most_entries || view_.objects.size() > most_objects)
    return "it has more entries or objects than any period of a job";
  return "";
}

std::size_t HeldSchedule::memory_bytes(const wire::ExecutorPlan& plan) const noexcept {
  return aligned(sizeof(wire::Executor)) + wire::Executor::memory_bytes(plan);
}

const char* HeldSchedule::prepare() noexcept {
  const wire::ExecutorPlan plan{.entries = view_.entries,
                                .objects = view_.objects,
                                .period = view_.header->period,
                                .out_order = view_.header->out_order,
                                .in_order = view_.header->in_order};
  memory_bytes_ = memory_bytes(plan);
  memory_ = static_cast<std::byte*>(os::map_anonymous(memory_bytes_, PROT_READ | PROT_WRITE));
  if (memory_ == nullptr) return "no memory to carry it out with";
  std::byte* const own = memory_ + aligned(sizeof(wire::Executor));
  executor_ = new (memory_) wire::Executor(plan, own);
  return "";
}

}  // namespace terrace::liballoc
