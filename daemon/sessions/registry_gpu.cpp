// See registry.h: heaps on GPUs, which share no DRAM.
#include <algorithm>
#include <cerrno>

#include "daemon/base/names.h"
#include "daemon/sessions/registry.h"

namespace terrace::daemon {

// A heap's grants are no promises, and none is on record: what it had it has again within what its job is
// due.
std::optional<Refusal> Registry::promise_gpu(SessionId id, const JobKey& job, const wire::Hello& hello,
                                             Admission* admission) {
  const bool is_back = (hello.flags & wire::hello_reattach) != 0;
  admission->is_expected = !is_back || is_on_record(job);
  const Promise had = claims_ ? claims_->terms(job) : Promise();
  const std::uint32_t here = arbiter_.job_weight(job);
  return gpu_.join(id, job,
                   {.device = clean_name(hello.program, sizeof hello.program, "?"),
                    .device_bytes = hello.pool_capacity_bytes,
                    .held_bytes = admission->is_expected ? hello.held_budget_bytes : 0,
                    .is_back = is_back && admission->is_expected,
                    .weight = here != 0         ? here
                              : had.weight != 0 ? had.weight
                                                : std::min<std::uint32_t>(hello.weight, wire::most_weight)});
}

std::optional<Refusal> Registry::set_job_weight(const JobKey& job, std::uint64_t weight) {
  auto refusal = change_arbiter().set_job_weight(job, weight);
  if (refusal && refusal->error != ENOENT) return refusal;
  return gpu_.set_job_weight(job, weight) ? std::nullopt : refusal;
}

}  // namespace terrace::daemon
